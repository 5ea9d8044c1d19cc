package main

import (
	"reflect"
	"testing"

	"heddle/lab"
)

// TestProductionConfig: the production configuration of lab's campaigns equals that of
// `heddle sm` without flags.
func TestProductionConfig(t *testing.T) {
	got, err := newSMFlags().config("sm")
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
