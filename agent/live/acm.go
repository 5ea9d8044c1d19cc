package live

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"heddle/agent"
	"heddle/agent/acm"
	"heddle/ib"
	wire "heddle/ib/sa"
)

// messageTime bounds the rest of a request whose header came, and the write of an answer.
const messageTime = 5 * time.Second

// serveACM accepts connections until ctx ends.
func (s *Server) serveACM(ctx context.Context, l net.Listener) {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			s.cfg.Log.Warn("accept", "err", err)
			select { // out of descriptors, say
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
				return
			}
			continue
		}
		select {
		case s.conns <- struct{}{}:
		default:
			s.counts.acmRefused.Add(1)
			c.Close()
			continue
		}
		s.counts.acmConns.Add(1)
		go func() {
			s.serveConn(ctx, c)
			c.Close()
			s.counts.acmConns.Add(-1)
			<-s.conns
		}()
	}
}

// serveConn answers the requests of a program, one after the other.
func (s *Server) serveConn(ctx context.Context, c net.Conn) {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	var buf [acm.MaxLen]byte
	var out []byte
	for {
		// A program may stay connected for as long as it lives.
		_ = c.SetDeadline(time.Time{})
		if _, err := io.ReadFull(c, buf[:acm.HeaderLen]); err != nil {
			return
		}
		_ = c.SetDeadline(time.Now().Add(messageTime))
		h, err := acm.DecodeHeader(buf[:acm.HeaderLen])
		if err == nil {
			_, err = io.ReadFull(c, buf[acm.HeaderLen:h.Length])
		}
		var r acm.Request
		if err == nil {
			r, err = acm.Decode(buf[:h.Length])
		}
		s.counts.acmRequests.Add(1)
		if err != nil {
			s.counts.acmErrors.Add(1)
			return // as ibacm does
		}
		out = s.answerACM(ctx, out[:0], &r)
		_ = c.SetDeadline(time.Now().Add(messageTime))
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

// answerACM appends the answer to a request.
func (s *Server) answerACM(ctx context.Context, b []byte, r *acm.Request) []byte {
	switch r.Op {
	case acm.PerfQuery:
		// ib_acme counts the index up until it is refused.
		if c, ok := s.acmCounters(ctx, int(r.Data[1])); ok {
			return acm.AppendCounters(b, r, c)
		}
		return acm.Append(b, r.Answer(acm.Invalid))
	case acm.EPQuery:
		if e, ok := s.endpoint(r.Data); ok {
			return acm.AppendEP(b, r, &e)
		}
		return acm.Append(b, r.Answer(acm.Invalid))
	case acm.Resolve:
		s.counts.acmResolves.Add(1)
		eps, st := s.resolve(ctx, r)
		switch st {
		case acm.OK:
			return acm.Append(b, r.Answer(acm.OK), eps...)
		case acm.NoData:
			s.counts.acmNoData.Add(1)
		default:
			s.counts.acmErrors.Add(1)
		}
		return acm.Append(b, r.Answer(st))
	}
	s.counts.acmErrors.Add(1)
	return acm.Append(b, r.Answer(acm.Invalid))
}

// resolve answers a RESOLVE request.
func (s *Server) resolve(ctx context.Context, r *acm.Request) ([]acm.Endpoint, acm.Status) {
	q, st := r.Question()
	if st != acm.OK {
		return nil, st
	}
	query := agent.Query{Mask: q.Mask, Record: q.Record}
	var source netip.Addr // to be returned, if the program named none
	if !q.Path {
		if query, source, st = s.addresses(&q); st != acm.OK {
			return nil, st
		}
	}
	query.Mask |= wire.PathCompReversible
	query.Record.Reversible = true
	a := agent.Ask{Query: query, Wait: s.cfg.Wait, Direct: q.Flags&acm.FlagQuerySA != 0}
	if q.Flags&acm.FlagNoDelay != 0 {
		a.Wait = 0
	}
	x := s.portOf(query.Mask, &query.Record).ask(ctx, a)
	if x.Result != agent.Found {
		return nil, statusOf(x.Result)
	}
	eps := []acm.Endpoint{acm.PathEndpoint(x.Record)}
	if source.IsValid() {
		eps = append(eps, acm.AddressEndpoint(source, acm.FlagSource))
	}
	return eps, acm.OK
}

// addresses makes a question for a path of one for addresses or names.
func (s *Server) addresses(q *acm.Question) (out agent.Query, source netip.Addr, st acm.Status) {
	s.counts.addrQueries.Add(1)
	dst, ok := s.lookup(q.Dest)
	if !ok {
		return out, source, acm.NoData
	}
	out = agent.Query{Mask: wire.PathCompDGID, Record: wire.PathRecord{DGID: dst.GID}}
	src := Target{}
	switch {
	case q.Source != nil:
		if src, ok = s.lookup(q.Source); !ok {
			return out, source, acm.BadSource
		}
	default:
		if a, ok := q.Dest.Address(); ok {
			if source = s.cfg.Addresses.Route(a); source.IsValid() {
				src, _ = s.cfg.Addresses.IP(source)
			}
		}
	}
	if src.GID.IsZero() {
		source = netip.Addr{} // the port answers with its own GID
	} else {
		out.Mask |= wire.PathCompSGID
		out.Record.SGID = src.GID
	}
	if key := max(dst.PKey, src.PKey); key != 0 {
		out.Mask |= wire.PathCompPKey
		out.Record.PKey = key | 0x8000
	}
	s.counts.addrHits.Add(1)
	return out, source, acm.OK
}

// lookup finds the GID of an address or name.
func (s *Server) lookup(e *acm.Endpoint) (t Target, ok bool) {
	if a, isIP := e.Address(); isIP {
		return s.cfg.Addresses.IP(a)
	}
	return s.cfg.Addresses.Name(e.Name())
}

// acmCounters are the counters of PERF_QUERY: of all ports with index 0, otherwise of one. Only
// the queries and hits for paths are known by port.
func (s *Server) acmCounters(ctx context.Context, index int) (c acm.Counters, ok bool) {
	if index > len(s.ports) {
		return c, false
	}
	c = acm.Counters{
		Errors: s.counts.acmErrors.Load(), Resolves: s.counts.acmResolves.Load(), NoData: s.counts.acmNoData.Load(),
		AddrQueries: s.counts.addrQueries.Load(), AddrHits: s.counts.addrHits.Load(),
	}
	for i, st := range s.stats(ctx) {
		if index > 0 && i != index-1 {
			continue
		}
		c.RouteQueries += st.Queries
		for _, n := range st.Answers {
			c.RouteHits += n[agent.FromCache] + n[agent.FromStale]
		}
	}
	return c, true
}

// endpoint describes a port for EP_QUERY: data has its index, from 1, and its number.
func (s *Server) endpoint(data [3]uint8) (e acm.EP, ok bool) {
	i := int(data[0])
	if i < 1 || i > len(s.ports) || data[1] != 0 && data[1] != s.ports[i-1].cfg.Num {
		return e, false
	}
	l := s.ports[i-1]
	st := l.state.Load()
	e = acm.EP{NodeGUID: l.cfg.NodeGUID, Port: l.cfg.Num, Ports: max(l.cfg.Num, 1), PKey: ib.PKeyDefaultFull, Provider: "heddle"}
	if len(st.PKeys) > 0 {
		e.PKey = st.PKeys[0]
	}
	for _, a := range s.cfg.Addresses.Local() {
		for _, g := range st.GIDs {
			if sameGID(a.GID, g) {
				e.Addresses = append(e.Addresses, a.IP.String())
			}
		}
	}
	for _, g := range st.GIDs {
		if !g.IsZero() {
			e.Addresses = append(e.Addresses, g.String())
		}
	}
	return e, true
}
