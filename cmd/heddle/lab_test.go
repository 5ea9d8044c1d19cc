package main

import (
	"context"
	"errors"
	"testing"

	"heddle/report"
)

// TestUntilInterrupt: an experiment that never ends is left when the program is to end, and what one
// returns comes through.
func TestUntilInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	began, end := make(chan struct{}), make(chan struct{})
	defer close(end)
	go func() {
		<-began
		cancel()
	}()
	if _, err := untilInterrupt(ctx, func() (*report.Report, error) {
		close(began)
		<-end
		return nil, nil
	}); !errors.Is(err, errInterrupted) {
		t.Errorf("%v", err)
	}
	want, failed := &report.Report{}, errors.New("it fails")
	if r, err := untilInterrupt(t.Context(), func() (*report.Report, error) { return want, failed }); r != want || !errors.Is(err, failed) {
		t.Errorf("%v, %v", r, err)
	}
}
