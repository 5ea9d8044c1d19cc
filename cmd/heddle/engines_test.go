package main

import (
	"reflect"
	"testing"

	"heddle/lab"
)

// TestProductionConfig: the configuration that campaigns in lab call the one of
// production is that of `heddle sm` without a flag.
func TestProductionConfig(t *testing.T) {
	got, err := newSMFlags().config()
	if err != nil {
		t.Fatal(err)
	}
	want := lab.ProductionConfig(lab.RepairChains()[0])
	got.MaxWindow = want.MaxWindow // the port's
	if !reflect.DeepEqual(got, want) {
		t.Errorf("heddle sm:\n%+v\nlab:\n%+v", got, want)
	}
	if len(got.Engines) != 3 {
		t.Errorf("%d engines", len(got.Engines))
	}
}
