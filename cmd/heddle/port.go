package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"heddle/ib"
	"heddle/mad"
	"heddle/replica/wire"
	"heddle/transport/ibsim"
	"heddle/transport/rmpp"
	"heddle/transport/umad"
)

// openPort opens what --port names, for a manager.
func openPort(ctx context.Context, spec string) (mad.Transport, error) {
	return openPortAs(ctx, spec, true)
}

// openPortAs opens what --port names: for a manager, of which a port has one, or for a client, which
// receives answers alone and may run beside any manager.
func openPortAs(ctx context.Context, spec string, manager bool) (mad.Transport, error) {
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
		o.Client = !manager
		// Signs of the other manager of a pair come without being asked for.
		if manager {
			o.Agents = []umad.Agent{{Class: wire.SignClass, Version: wire.SignVersion, OUI: wire.SignOUI, Methods: []ib.Method{ib.MethodSend}}}
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
		_, t, err := dialIbsim(ctx, rest)
		return t, err
	}
	return nil, usagef("--port %q: unknown transport %q%s", spec, kind, didYouMean(kind, []string{"umad", "ibsim"}))
}

// dialIbsim attaches to a node named NODE[@SOCKNAME][,rmpp=on|off]. The
// transport segments if the server reports which clients reassemble, or if all
// of them are said to.
func dialIbsim(ctx context.Context, spec string) (*ibsim.Conn, mad.Transport, error) {
	o, seg, err := ibsimOptions(spec)
	if err != nil {
		return nil, nil, err
	}
	c, err := ibsim.Dial(ctx, o)
	if err != nil {
		return nil, nil, ibsimHint(err, o.SockName)
	}
	if seg == segmentAll || seg == segmentAsked && c.TellsRequesters() {
		return c, rmpp.Over(c), nil
	}
	return c, c, nil
}

// ibsimHint adds the remedy to an error of attaching.
func ibsimHint(err error, sock string) error {
	if sock == "" {
		sock = "sim"
	}
	switch {
	case errors.Is(err, ibsim.ErrNoServer):
		return fmt.Errorf("%w\nStart one with 'heddle sim --netlist FILE --socket %s', or ibsim with IBSIM_SOCKNAME=%s", err, sock, sock)
	case errors.Is(err, ibsim.ErrRefused):
		return fmt.Errorf("%w\nNodes are named by netlist id or description; 'attached' on the simulator's console lists the attached clients", err)
	}
	return err
}

// umadOptions parses DEVICE/PORT[,rmpp=own]. By default the kernel segments
// messages of the SA class.
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

// segmenting says for which clients a port of a simulator makes RMPP segments.
type segmenting int

const (
	segmentAsked segmenting = iota // for clients that reassemble, if the simulator reports that
	segmentAll                     // for all clients, except those that the simulator reports as unable
	segmentNone                    // for none: a response is one MAD, which is all that clients of stock ibsim can take
)

// ibsimOptions parses NODE[@SOCKNAME][,rmpp=on|off].
func ibsimOptions(rest string) (o ibsim.Options, seg segmenting, err error) {
	where, opts, _ := strings.Cut(rest, ",")
	o.Node, o.SockName, _ = strings.Cut(where, "@")
	if o.SockName == "" {
		o.SockName = os.Getenv("IBSIM_SOCKNAME")
	}
	for kv := range strings.SplitSeq(opts, ",") {
		switch kv {
		case "":
		case "rmpp=on":
			seg = segmentAll
		case "rmpp=off":
			seg = segmentNone
		default:
			return o, seg, usagef("--port: ibsim takes rmpp=on or rmpp=off, not %q", kv)
		}
	}
	o.Reassembles = seg != segmentNone
	return o, seg, nil
}

// nodeAndSocket splits NODE[@SOCKNAME]; the default socket name is
// IBSIM_SOCKNAME, or sim.
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
