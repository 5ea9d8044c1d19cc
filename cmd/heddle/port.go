package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"heddle/mad"
	"heddle/transport/ibsim"
	"heddle/transport/umad"
)

const portHelp = "`PORT` to manage the subnet through: umad:DEVICE/PORT or ibsim:NODE[@SOCKNAME][,rmpp=on]"

// openPort opens what --port names. singleMAD says that the far ends cannot
// reassemble RMPP.
func openPort(ctx context.Context, spec string) (port mad.Transport, singleMAD bool, err error) {
	kind, rest, ok := strings.Cut(spec, ":")
	if !ok {
		return nil, false, usagef("--port %q: want umad:DEVICE/PORT (a real HCA) or ibsim:NODE[@SOCKNAME] (a simulator)", spec)
	}
	switch kind {
	case "umad":
		p, err := umad.Open(rest)
		if err != nil {
			return nil, false, err
		}
		return p, false, nil
	case "ibsim":
		o, rmpp, err := ibsimOptions(rest)
		if err != nil {
			return nil, false, err
		}
		p, err := ibsim.Dial(ctx, o)
		if err != nil {
			return nil, false, err
		}
		return p, !rmpp, nil
	}
	return nil, false, usagef("--port %q: no transport is called %q%s", spec, kind, didYouMean(kind, []string{"umad", "ibsim"}))
}

func ibsimOptions(rest string) (o ibsim.Options, rmpp bool, err error) {
	where, opts, _ := strings.Cut(rest, ",")
	o.Node, o.SockName, _ = strings.Cut(where, "@")
	if o.SockName == "" {
		o.SockName = os.Getenv("IBSIM_SOCKNAME")
	}
	if opts == "" {
		return o, false, nil
	}
	for _, kv := range strings.Split(opts, ",") {
		switch kv {
		case "rmpp=on":
			rmpp = true
		case "rmpp=off":
			rmpp = false
		default:
			return o, false, usagef("--port: ibsim takes rmpp=on or rmpp=off, not %q", kv)
		}
	}
	return o, rmpp, nil
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

// lidList prints at most n of a list of names.
func shorten[T any](list []T, n int) string {
	more := ""
	if len(list) > n {
		more = fmt.Sprintf(" and %d more", len(list)-n)
		list = list[:n]
	}
	parts := make([]string, len(list))
	for i, v := range list {
		parts[i] = fmt.Sprint(v)
	}
	return strings.Join(parts, ", ") + more
}
