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

// Refusal reports whether an error is the answer of an agent that does not know what it was asked
// for. One that is busy, or that answers something else, may know it.
func Refusal(err error) bool {
	var se *StatusError
	return errors.As(err, &se) && se.Status&ib.StatusBusy == 0
}
