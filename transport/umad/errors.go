package umad

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Kinds of failure, for errors.Is.
var (
	// ErrBusy: another program has registered what a manager needs of the port.
	ErrBusy = errors.New("another subnet manager runs on this port")
	// ErrRemoved: the device was removed (hot removal, driver reload). The Port is
	// unusable; Reopen waits for the device to return.
	ErrRemoved = errors.New("the device is gone")
	// ErrNoDevice: no port of that name.
	ErrNoDevice = errors.New("no such InfiniBand port")
	// ErrNoSMI: the port carries no subnet management packets (RoCE, or an HCA
	// with a separate device for its SMI).
	ErrNoSMI = errors.New("the port has no QP0")
	// ErrPermission: the device files are not ours to open.
	ErrPermission = errors.New("not permitted")
	// ErrClosed: the Port was closed.
	ErrClosed = errors.New("port is closed")
)

// Error names the operation and the device.
type Error struct {
	Op     string // "open", "register agent", "read", …
	Device string // "mlx5_0/1 (umad0)"
	Kind   error  // one of the kinds above, or nil
	Err    error  // from the system
	Hint   string // the remedy, may be empty
}

func (e *Error) Error() string {
	s := "umad: " + e.Op
	if e.Device != "" {
		s += " " + e.Device
	}
	if e.Kind != nil {
		s += ": " + e.Kind.Error()
	}
	if e.Err != nil && !errors.Is(e.Err, e.Kind) {
		s += fmt.Sprintf(" (%v)", e.Err)
	}
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

func (e *Error) Unwrap() []error {
	var out []error
	if e.Kind != nil {
		out = append(out, e.Kind)
	}
	if e.Err != nil {
		out = append(out, e.Err)
	}
	return out
}

// wrap makes an Error of a failed system call.
func wrap(op, device string, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Op: op, Device: device, Err: bare(err)}
	switch {
	case errors.Is(err, os.ErrClosed):
		e.Kind = ErrClosed
	case errors.Is(err, syscall.EIO), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ENODEV),
		errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.ENOTCONN):
		e.Kind = ErrRemoved
	case errors.Is(err, syscall.EBUSY):
		e.Kind = ErrBusy
	case errors.Is(err, os.ErrPermission):
		e.Kind = ErrPermission
		e.Hint = "run as root, or give your group the device files by a udev rule"
	case errors.Is(err, os.ErrNotExist):
		e.Kind = ErrNoDevice
		e.Hint = "is the ib_umad module loaded?"
	}
	return e
}

// bare drops the path that os puts around an errno: the Error names the device.
func bare(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}
