// Package saclient is how the software of a host talks to subnet administration:
// path queries with RMPP, subscriptions to notices, and Reports, which it answers.
//
// A Client is pure: its caller passes packets, times and a way to send. Requests go
// to the master that PortInfo names (Master), are repeated when they are not
// answered (mad.Engine), and complete once.
package saclient

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
)

// Master is where the master manager is, as PortInfo says.
type Master struct {
	LID ib.LID
	SL  ib.SL
}

// Report is a notice that came in a Report.
type Report struct {
	At     mad.Time
	Notice wire.Notice
	// PathNotice follows the notice of traps 68 and 69.
	wire.PathNotice
}

// Client talks to the SA from one port.
type Client struct {
	eng    *mad.Engine
	rmpp   *mad.RMPP
	send   func(*mad.Packet)
	master func() Master
	calls  map[uint64]*call
	token  uint64

	// OnReport gets each Report once it is answered. nil: Reports are not answered.
	OnReport func(r *Report)
	// Count counts messages.
	Count Counters
}

// call is a request that has not ended.
type call struct {
	mad  ib.MAD
	to   Master
	done func(now mad.Time, data []byte, err error)
}

// Counters count MADs and their bytes, those of RMPP included.
type Counters struct {
	Sent, Received      uint64 // MADs of 256 bytes
	Reports, Queries    uint64
	Answered, Failed    uint64 // queries
	Records             uint64 // path records received
	Subscribed, Refused uint64
}

// New makes a client that sends by send. Requests go to where master says.
func New(send func(*mad.Packet), master func() Master, c mad.Config) *Client {
	k := &Client{eng: mad.NewEngine(c), rmpp: mad.NewRMPP(mad.RMPPConfig{}), master: master, calls: map[uint64]*call{}}
	k.send = func(p *mad.Packet) {
		k.Count.Sent++
		send(p)
	}
	return k
}

// StatusError is an answer with an error status.
type StatusError struct {
	Attr   ib.AttrID
	Status ib.Status
}

// Error says which attribute was refused with what.
func (e *StatusError) Error() string {
	return fmt.Sprintf("saclient: attribute %#04x is answered with status %#04x", uint16(e.Attr), uint16(e.Status))
}

// ErrShort is a response that is shorter than it must be.
var ErrShort = errors.New("saclient: the response is too short")

// request sends a request; done is called once.
func (k *Client) request(now mad.Time, m *ib.MAD, done func(now mad.Time, data []byte, err error)) {
	k.submit(now, &call{mad: *m, done: done})
	k.eng.Poll(now, k.send)
}

func (k *Client) submit(now mad.Time, c *call) {
	k.token++
	c.to = k.master()
	r := mad.Request{Token: k.token, MAD: c.mad, Addr: mad.Addr{LID: c.to.LID, SL: c.to.SL, QP: 1}}
	if err := k.eng.Submit(&r); err != nil {
		c.done(now, nil, err)
		return
	}
	k.calls[k.token] = c
}

// Redirect sends requests that have not ended to the present master, with all their
// repetitions before them: the manager that they were sent to may be dead. Call it
// when a manager asks the port to register again.
func (k *Client) Redirect(now mad.Time) {
	for _, token := range slices.Sorted(maps.Keys(k.calls)) {
		if c := k.calls[token]; c.to != k.master() {
			k.eng.Cancel(token, token)
			delete(k.calls, token)
			k.submit(now, c)
		}
	}
	k.eng.Poll(now, k.send)
}

// Paths asks for the path records that match q by its components in mask: all of
// them by RMPP, or the first if one says so.
func (k *Client) Paths(now mad.Time, q *wire.PathRecord, mask wire.CompMask, one bool, done func(now mad.Time, list []wire.PathRecord, err error)) {
	method := ib.MethodGetTable
	if one {
		method = ib.MethodGet
	}
	var m ib.MAD
	wire.New(&m, method, wire.AttrPathRecord, 0, mask)
	q.Put(wire.Data(&m))
	k.Count.Queries++
	k.request(now, &m, func(now mad.Time, data []byte, err error) {
		var list []wire.PathRecord
		if err == nil {
			list, err = records(data, one)
		}
		if err != nil {
			k.Count.Failed++
		} else {
			k.Count.Answered++
			k.Count.Records += uint64(len(list))
		}
		done(now, list, err)
	})
}

// records are the path records of a response.
func records(data []byte, one bool) ([]wire.PathRecord, error) {
	var h wire.Header
	if err := h.Decode(data); err != nil {
		return nil, err
	}
	data = data[wire.HeaderLen:]
	size := int(h.AttrOffset) * 8
	if one {
		data, size = data[:min(len(data), wire.PathRecordLen)], wire.PathRecordLen
	}
	if size == 0 || len(data) == 0 {
		return nil, nil
	}
	if size < wire.PathRecordLen {
		return nil, ErrShort
	}
	var list []wire.PathRecord
	for ; len(data) >= size; data = data[size:] {
		var r wire.PathRecord
		if err := r.Decode(data[:wire.PathRecordLen]); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// Subscribe asks for Reports of a generic trap of any source.
func (k *Client) Subscribe(now mad.Time, trap uint16, done func(now mad.Time, err error)) {
	var m ib.MAD
	wire.New(&m, ib.MethodSet, wire.AttrInformInfo, 0, 0)
	i := wire.InformInfo{
		LIDRangeBegin: wire.InformAllLIDs, IsGeneric: 1, Subscribe: 1, Type: wire.InformAllTypes,
		TrapNumber: trap, QPN: 1, RespTimeValue: 16, Producer: wire.InformAllProducers,
	}
	i.Put(wire.Data(&m))
	k.request(now, &m, func(now mad.Time, _ []byte, err error) {
		if err != nil {
			k.Count.Refused++
		} else {
			k.Count.Subscribed++
		}
		done(now, err)
	})
}

// Join joins a multicast group that exists, as a full member with the GID of a port.
func (k *Client) Join(now mad.Time, group, port ib.GID, done func(now mad.Time, r wire.MCMemberRecord, err error)) {
	var m ib.MAD
	wire.New(&m, ib.MethodSet, wire.AttrMCMemberRecord, 0, wire.MCMemberCompMGID|wire.MCMemberCompPortGID|wire.MCMemberCompJoinState)
	(&wire.MCMemberRecord{MGID: group, PortGID: port, JoinState: wire.JoinFull}).Put(wire.Data(&m))
	k.request(now, &m, func(now mad.Time, data []byte, err error) {
		var r wire.MCMemberRecord
		if err == nil && len(data) < wire.HeaderLen+wire.MCMemberRecordLen {
			err = ErrShort
		}
		if err == nil {
			err = r.Decode(data[wire.HeaderLen : wire.HeaderLen+wire.MCMemberRecordLen])
		}
		done(now, r, err)
	})
}

// Receive takes a packet from the port.
func (k *Client) Receive(now mad.Time, p *mad.Packet) {
	k.Count.Received++
	whole, kind := k.rmpp.Receive(now, p, k.send, func(uint64, error) {})
	switch kind {
	case mad.RMPPUsed:
		return
	case mad.RMPPMessage:
		p = whole
	}
	// A message of RMPP may be shorter than a MAD.
	if len(p.Data) < wire.HeaderLen || ib.Class(p.Data[1]) != ib.ClassSA {
		return
	}
	if ib.Method(p.Data[3]) == ib.MethodReport {
		if len(p.Data) == ib.MADLen {
			k.report(now, p)
		}
		return
	}
	if c, kind := k.eng.Receive(now, p); kind == mad.KindCompletion {
		k.completed(now, &c)
	}
	k.eng.Poll(now, k.send)
}

// report answers a Report and passes it on.
func (k *Client) report(now mad.Time, p *mad.Packet) {
	if k.OnReport == nil {
		return
	}
	r := Report{At: now}
	data := p.Data[wire.DataOffset:]
	if r.Notice.Decode(data[:wire.NoticeLen]) != nil {
		return
	}
	if r.PathNotice.Decode(data[wire.NoticeLen:]) != nil {
		return
	}
	k.Count.Reports++
	q := *p
	q.LocalQP = 1
	q.Data = append([]byte(nil), p.Data...)
	q.Data[3] |= byte(ib.MethodResponseBit)
	k.send(&q)
	k.OnReport(&r)
}

// completed ends a request.
func (k *Client) completed(now mad.Time, c *mad.Completion) {
	x := k.calls[c.Token]
	delete(k.calls, c.Token)
	err := c.Err
	if err == nil {
		if st := c.MAD.Status(); st != ib.StatusOK {
			err = &StatusError{c.Attr, st}
		}
	}
	if x != nil {
		x.done(now, c.Data, err)
	}
}

// Accepts says which packets that are no responses are for a client: Reports.
func Accepts(p *mad.Packet) bool {
	return ib.Class(p.Data[1]) == ib.ClassSA && ib.Method(p.Data[3]) == ib.MethodReport
}

// NextTimer is when Expire is due.
func (k *Client) NextTimer() mad.Time { return min(k.eng.NextTimer(), k.rmpp.NextTimer()) }

// Expire handles what is due: requests are repeated or end.
func (k *Client) Expire(now mad.Time) {
	k.rmpp.Expire(now, k.send, func(uint64, error) {})
	k.eng.Expire(now, func(c mad.Completion) { k.completed(now, &c) })
	k.eng.Poll(now, k.send)
}
