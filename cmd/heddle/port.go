package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"heddle/mad"
	"heddle/transport/ibsim"
	"heddle/transport/rmpp"
	"heddle/transport/umad"
)

const portHelp = "`PORT` to manage the subnet through: umad:DEVICE/PORT[,rmpp=own] or ibsim:NODE[@SOCKNAME][,rmpp=on]"

// openPort opens what --port names.
func openPort(ctx context.Context, spec string) (mad.Transport, error) {
	kind, rest, ok := strings.Cut(spec, ":")
	if !ok {
		return nil, usagef("--port %q: want umad:DEVICE/PORT (a real HCA) or ibsim:NODE[@SOCKNAME] (a simulator)", spec)
	}
	switch kind {
	case "umad":
		o, err := umadOptions(rest)
		if err != nil {
			return nil, err
		}
		p, err := umad.OpenPort(o)
		if err != nil {
			return nil, err
		}
		if o.OwnRMPP {
			return rmpp.Over(p), nil
		}
		return p, nil
	case "ibsim":
		o, segment, err := ibsimOptions(rest)
		if err != nil {
			return nil, err
		}
		p, err := ibsim.Dial(ctx, o)
		if err != nil {
			return nil, ibsimHint(err, o.SockName)
		}
		if segment {
			return rmpp.Over(p), nil
		}
		return p, nil
	}
	return nil, usagef("--port %q: no transport is called %q%s", spec, kind, didYouMean(kind, []string{"umad", "ibsim"}))
}

// ibsimHint adds to an error of attaching what to do about it.
func ibsimHint(err error, sock string) error {
	if sock == "" {
		sock = "sim"
	}
	switch {
	case errors.Is(err, ibsim.ErrNoServer):
		return fmt.Errorf("%w\nStart one with 'heddle sim --netlist FILE --socket %s', or ibsim with IBSIM_SOCKNAME=%s", err, sock, sock)
	case errors.Is(err, ibsim.ErrRefused):
		return fmt.Errorf("%w\nNodes are named by netlist id or description; 'attached' on the simulator's console lists who is there", err)
	}
	return err
}

// umadOptions reads DEVICE/PORT[,rmpp=own]. The kernel segments messages of the
// SA class unless we are told to.
func umadOptions(rest string) (o umad.Options, err error) {
	name, opts, _ := strings.Cut(rest, ",")
	o.Name = name
	if opts == "" {
		return o, nil
	}
	for kv := range strings.SplitSeq(opts, ",") {
		switch kv {
		case "rmpp=own":
			o.OwnRMPP = true
		case "rmpp=kernel":
			o.OwnRMPP = false
		default:
			return o, usagef("--port: umad takes rmpp=own or rmpp=kernel, not %q", kv)
		}
	}
	return o, nil
}

// ibsimOptions reads NODE[@SOCKNAME][,rmpp=on]. Without RMPP a table answer is
// one MAD, which is all that clients of stock ibsim can take.
func ibsimOptions(rest string) (o ibsim.Options, segment bool, err error) {
	where, opts, _ := strings.Cut(rest, ",")
	o.Node, o.SockName, _ = strings.Cut(where, "@")
	if o.SockName == "" {
		o.SockName = os.Getenv("IBSIM_SOCKNAME")
	}
	if opts == "" {
		return o, false, nil
	}
	for kv := range strings.SplitSeq(opts, ",") {
		switch kv {
		case "rmpp=on":
			segment = true
		case "rmpp=off":
			segment = false
		default:
			return o, false, usagef("--port: ibsim takes rmpp=on or rmpp=off, not %q", kv)
		}
	}
	return o, segment, nil
}

// nodeAndSocket splits NODE[@SOCKNAME]; the name of the simulator is sim, or
// what IBSIM_SOCKNAME says.
func nodeAndSocket(s string) (node, sock string) {
	node, sock, ok := strings.Cut(s, "@")
	if !ok || sock == "" {
		sock = os.Getenv("IBSIM_SOCKNAME")
	}
	if sock == "" {
		sock = "sim"
	}
	return node, sock
}
