package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"heddle/flood"
	"heddle/flood/live"
	"heddle/ib"
	"heddle/mad"
	"heddle/transport/ibsim"
	"heddle/transport/rmpp"
	"heddle/transport/umad"
)

const floodPortHelp = "umad:DEVICE/PORT or ibsim:NODE[@SOCKNAME][,rmpp=on]"

// client is a port opened to ask an SA, beside whatever else runs on it.
type client struct {
	*live.Port
	own         flood.End
	prefix      ib.SubnetPrefix
	sa          mad.Addr
	timed       bool // the transport times requests itself
	maxInFlight int
}

// openClient opens a port and learns from it where the SA is.
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
		o, segment, err := ibsimOptions(rest)
		if err != nil {
			return nil, err
		}
		p, err := ibsim.Dial(ctx, o)
		if err != nil {
			return nil, ibsimHint(err, o.SockName)
		}
		pi, err := p.PortInfo(0)
		if err != nil {
			p.Close()
			return nil, err
		}
		c.own.LID, c.prefix = pi.LID, pi.GidPrefix
		smLID, smSL = pi.MasterSMLID, pi.MasterSMSL
		t = p
		if segment {
			t = rmpp.Over(p)
		}
	default:
		return nil, usagef("%s %q: no transport is called %q%s", flag, spec, kind, didYouMean(kind, []string{"umad", "ibsim"}))
	}
	c.own.GID = ib.MakeGID(c.prefix, t.PortGUID())
	c.sa.LID, c.sa.SL = smLID, smSL
	c.maxInFlight = t.MaxInFlight()
	if !c.own.LID.IsUnicast() || !smLID.IsUnicast() {
		t.Close()
		return nil, fmt.Errorf("%s (port GUID %v) has LID %d and knows its manager at LID %d: bring the subnet up first", spec, t.PortGUID(), c.own.LID, smLID)
	}
	c.Port = live.Open(spec, t, epoch)
	return c, nil
}

// parseEnds reads destinations: LIDs, GIDs and port GUIDs.
func parseEnds(list []string, prefix ib.SubnetPrefix, q flood.Query) ([]flood.End, error) {
	var ends []flood.End
	for _, s := range list {
		if n, err := strconv.ParseUint(s, 0, 16); err == nil {
			if q == flood.PathByGID {
				return nil, usagef("--dst %s: '--query path' asks by GID; give GIDs or port GUIDs, or --query path-lid", s)
			}
			if !ib.LID(n).IsUnicast() {
				return nil, usagef("--dst %s: want a unicast LID, 1 to %d", s, ib.LIDMaxUnicast)
			}
			ends = append(ends, flood.End{LID: ib.LID(n)})
			continue
		}
		if q != flood.PathByGID {
			return nil, usagef("--dst %s: '--query %v' asks by LID; want a number from 1 to %d", s, q, ib.LIDMaxUnicast)
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
