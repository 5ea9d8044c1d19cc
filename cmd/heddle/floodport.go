package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"heddle/flood"
	"heddle/flood/live"
	"heddle/ib"
	"heddle/mad"
	"heddle/transport/umad"
)

const floodPortHelp = "umad:DEVICE/PORT or ibsim:NODE[@SOCKNAME][,rmpp=on|off]"

// client is a port opened for SA queries, next to other programs on it.
type client struct {
	*live.Port
	own         flood.End
	prefix      ib.SubnetPrefix
	sa          mad.Addr
	timed       bool // the transport times requests itself
	maxInFlight int
}

// openClient opens a port and reads from it the address of the SA.
func openClient(ctx context.Context, flag, spec string, epoch time.Time) (*client, error) {
	kind, rest, ok := strings.Cut(spec, ":")
	if !ok {
		return nil, usagef("%s %q: want %s", flag, spec, floodPortHelp)
	}
	c := &client{}
	var t mad.Transport
	var smLID ib.LID
	var smSL ib.SL
	switch kind {
	case "umad":
		p, err := umad.OpenPort(umad.Options{Name: rest, Client: true})
		if err != nil {
			return nil, err
		}
		d := p.Refresh()
		c.own.LID, c.prefix, c.timed = d.LID, ib.DefaultSubnetPrefix, true
		if len(d.GIDs) > 0 {
			c.prefix = d.GIDs[0].Prefix()
		}
		c.sa.PKeyIndex = d.DefaultPKeyIndex()
		smLID, smSL = d.SMLID, d.SMSL
		t = p
	case "ibsim":
		p, segments, err := dialIbsim(ctx, rest)
		if err != nil {
			return nil, err
		}
		pi, err := p.PortInfo(0)
		if err != nil {
			p.Close()
			return nil, err
		}
		c.own.LID, c.prefix = pi.LID, pi.GidPrefix
		smLID, smSL = pi.MasterSMLID, pi.MasterSMSL
		t = segments
	default:
		return nil, usagef("%s %q: unknown transport %q%s", flag, spec, kind, didYouMean(kind, []string{"umad", "ibsim"}))
	}
	c.own.GID = ib.MakeGID(c.prefix, t.PortGUID())
	c.sa.LID, c.sa.SL = smLID, smSL
	c.maxInFlight = t.MaxInFlight()
	if !c.own.LID.IsUnicast() || !smLID.IsUnicast() {
		t.Close()
		return nil, fmt.Errorf("%s (port GUID %v) has LID %d and SM LID %d; bring the subnet up first", spec, t.PortGUID(), c.own.LID, smLID)
	}
	c.Port = live.Open(spec, t, epoch)
	return c, nil
}

// portFlag is a port and the flag that named it, for messages.
type portFlag struct{ flag, spec string }

// floodTarget is the destination of the queries.
type floodTarget struct {
	query   flood.Query
	dst     []string // nil: all hosts
	seed    uint64
	timeout time.Duration
	dots    int // of the first flooder
}

// openFlooders opens the ports and makes a flooder on each. The first one reads
// the destinations, whose number is returned. Say, if not nil, gets progress
// messages.
func openFlooders(ctx context.Context, specs []portFlag, t floodTarget, say func(string)) (fs []live.Flooder, n int, closeAll func(), err error) {
	epoch := time.Now()
	var ports []*client
	shut := func() {
		for _, p := range ports {
			p.Close()
		}
	}
	defer func() {
		if err != nil {
			shut()
		}
	}()
	for _, s := range specs {
		p, err := openClient(ctx, s.flag, s.spec, epoch)
		if err != nil {
			return nil, 0, nil, err
		}
		ports = append(ports, p)
	}
	first := ports[0]
	var ends []flood.End
	switch {
	case len(t.dst) > 0:
		ends, err = parseEnds(t.dst, first.prefix, t.query)
	case t.query != flood.ClassInfo:
		if say != nil {
			say("reading the nodes")
		}
		ends, err = first.Ends(ctx, first.sa, first.prefix, first.timed)
	}
	if err != nil {
		return nil, 0, nil, err
	}
	for i, p := range ports {
		c := flood.Config{
			Target: flood.Target{SA: p.sa, Own: p.own, Query: t.query, Ends: ends},
			Seed:   t.seed + uint64(i), Timeout: t.timeout, MaxInFlight: p.maxInFlight, TransportTimed: p.timed,
			// Responses to an earlier process on this port must not match.
			FirstTID: rand.Uint32(),
		}
		if i == 0 {
			c.Dots = t.dots
		}
		fs = append(fs, live.Flooder{Flooder: flood.New(c), Port: p.Port})
	}
	return fs, len(ends), shut, nil
}

// flooders returns the state machines of fs.
func flooders(fs []live.Flooder) []*flood.Flooder {
	var out []*flood.Flooder
	for _, f := range fs {
		out = append(out, f.Flooder)
	}
	return out
}

// parseEnds reads destinations: LIDs, GIDs and port GUIDs.
func parseEnds(list []string, prefix ib.SubnetPrefix, q flood.Query) ([]flood.End, error) {
	var ends []flood.End
	for _, s := range list {
		if n, err := strconv.ParseUint(s, 0, 16); err == nil {
			if q == flood.PathByGID {
				return nil, usagef("--dst %s: '--query path' uses GIDs; give GIDs or port GUIDs, or --query path-lid", s)
			}
			if !ib.LID(n).IsUnicast() {
				return nil, usagef("--dst %s: want a unicast LID, 1 to %d", s, ib.LIDMaxUnicast)
			}
			ends = append(ends, flood.End{LID: ib.LID(n)})
			continue
		}
		if q != flood.PathByGID {
			return nil, usagef("--dst %s: '--query %v' uses LIDs; want a number from 1 to %d", s, q, ib.LIDMaxUnicast)
		}
		if g, err := ib.ParseGUID(s); err == nil {
			ends = append(ends, flood.End{GID: ib.MakeGID(prefix, g)})
			continue
		}
		g, err := ib.ParseGID(s)
		if err != nil {
			return nil, usagef("--dst %s: neither a GID nor a port GUID (0x and 16 digits)", s)
		}
		ends = append(ends, flood.End{GID: g})
	}
	return ends, nil
}
