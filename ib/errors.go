package ib

import (
	"errors"
	"slices"
	"strconv"
)

// The kinds of DecodeError.
var (
	ErrShort = errors.New("too short")
	ErrLong  = errors.New("too long")
	ErrValue = errors.New("impossible value")
)

// DecodeError describes malformed bytes from the wire. The destination of the decoder is
// unchanged.
type DecodeError struct {
	Type string // the attribute or header, "PortInfo"
	Want int    // bytes expected
	Got  int    // bytes given; for ErrValue the offending value
	Err  error  // ErrShort, ErrLong or ErrValue
	// Field names the field with the impossible value (ErrValue only).
	Field string
}

// Error names the type, the kind and both lengths, or the field and its value.
func (e *DecodeError) Error() string {
	s := "ib: " + e.Type
	if e.Field != "" {
		return s + "." + e.Field + ": " + e.Err.Error() + " " + strconv.Itoa(e.Got)
	}
	return s + ": " + e.Err.Error() + ": " + strconv.Itoa(e.Got) + " bytes, want " + strconv.Itoa(e.Want)
}

// Unwrap gives the kind.
func (e *DecodeError) Unwrap() error { return e.Err }

// CheckLen is the length rule of every decoder: b is exactly the attribute
// (want bytes) or exactly a data area of its class that holds it (one of
// areas), whose tail is then ignored.
func CheckLen(typ string, b []byte, want int, areas ...int) error {
	if len(b) == want {
		return nil
	}
	if slices.Contains(areas, len(b)) {
		return nil
	}
	return lenError(typ, len(b), want)
}

func lenError(typ string, got, want int) error {
	err := ErrShort
	if got > want {
		err = ErrLong
	}
	return &DecodeError{Type: typ, Want: want, Got: got, Err: err}
}

// BadValue is the error of a decoder for a value that no reader could interpret.
func BadValue(typ, field string, v int) error {
	return &DecodeError{Type: typ, Field: field, Got: v, Err: ErrValue}
}
