package route

import (
	"errors"
	"fmt"
)

// Why an engine refuses a fabric, for errors.Is.
var (
	// ErrTopology: the engine does not route fabrics of this shape, or not with
	// these failures. Another engine may.
	ErrTopology = errors.New("route: the engine does not route this fabric")
	// ErrLanes: the tables would need more data lanes than links have or
	// Options.MaxVLs permits.
	ErrLanes = errors.New("route: too few data lanes")
	// ErrInput: Options, previous tables or files that the caller gave do not fit
	// the fabric.
	ErrInput = errors.New("route: the input does not fit the fabric")
)

// EngineError is the error of an engine that computes no tables for a fabric.
type EngineError struct {
	Engine string // its name
	Kind   error  // ErrTopology, ErrLanes or ErrInput
	Reason string // which switch, port or LID, and what is wrong
}

// Error is the engine and the reason.
func (e *EngineError) Error() string { return e.Engine + ": " + e.Reason }

// Unwrap is the kind.
func (e *EngineError) Unwrap() error { return e.Kind }

// Refuse makes an EngineError.
func Refuse(engine string, kind error, format string, args ...any) error {
	return &EngineError{Engine: engine, Kind: kind, Reason: fmt.Sprintf(format, args...)}
}

// RefusedBy is err as the EngineError of an engine: of the kind that err has, or else
// of the given one.
func RefusedBy(engine string, kind, err error) error {
	for _, k := range []error{ErrTopology, ErrLanes, ErrInput} {
		if errors.Is(err, k) {
			kind = k
		}
	}
	reason := err.Error()
	if r, ok := errors.AsType[*EngineError](err); ok {
		reason = r.Reason
	}
	return &EngineError{Engine: engine, Kind: kind, Reason: reason}
}
