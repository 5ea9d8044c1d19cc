package work

import (
	"errors"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// StatusError is an answer that says no.
type StatusError struct {
	Status ib.Status
}

// Error implements error.
func (e *StatusError) Error() string { return "status " + e.Status.String() }

// Answer is nil if the request was answered with status 0.
func Answer(comp *mad.Completion) error {
	if comp.Err != nil {
		return comp.Err
	}
	if st := smp.StatusOf(comp.MAD); st != 0 {
		return &StatusError{st}
	}
	return nil
}

var errUnchanged = errors.New("the state did not change")

// Unchanged is why a Set did not do what it should, although it was answered.
func Unchanged(comp *mad.Completion) error {
	if st := smp.StatusOf(comp.MAD); st != 0 {
		return &StatusError{st}
	}
	return errUnchanged
}
