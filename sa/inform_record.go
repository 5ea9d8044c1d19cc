package sa

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/store"
)

// informRecords answers queries for InformInfoRecords. Only trusted requesters
// see a subscriber's QPN or may query by it.
func informRecords(q *query) {
	var want wire.InformInfoRecord
	if want.Decode(q.data) != nil {
		q.status = statusInvalid
		return
	}
	if q.has(wire.InformCompQPN) && !q.trusted {
		return
	}
	for _, s := range q.v.Subs {
		r := wire.InformInfoRecord{SubscriberGID: s.GID, Enum: s.Enum, InformInfo: s.Info}
		r.InformInfo.Subscribe = 1
		if !informMatches(q.mask, &r, &want) {
			continue
		}
		if p := q.s.PortByPortGUID(s.GID.GUID()); !q.trusted && p < 0 || p >= 0 && !q.sees(p) {
			continue
		}
		b := q.record()
		if b == nil {
			return
		}
		if !q.trusted {
			r.InformInfo.QPN = 0
		}
		r.Put(b)
	}
}

func informMatches(m wire.CompMask, r, want *wire.InformInfoRecord) bool {
	a, b := &r.InformInfo, &want.InformInfo
	return !(m.Has(wire.InformCompSubscriberGID) && r.SubscriberGID != want.SubscriberGID ||
		m.Has(wire.InformCompEnum) && r.Enum != want.Enum ||
		m.Has(wire.InformCompGID) && a.GID != b.GID ||
		m.Has(wire.InformCompLIDRangeBegin) && a.LIDRangeBegin != b.LIDRangeBegin ||
		m.Has(wire.InformCompLIDRangeEnd) && a.LIDRangeEnd != b.LIDRangeEnd ||
		m.Has(wire.InformCompIsGeneric) && a.IsGeneric != b.IsGeneric ||
		m.Has(wire.InformCompSubscribe) && a.Subscribe != b.Subscribe ||
		m.Has(wire.InformCompType) && a.Type != b.Type ||
		m.Has(wire.InformCompTrapNumber) && a.TrapNumber != b.TrapNumber ||
		m.Has(wire.InformCompQPN) && a.QPN != b.QPN ||
		m.Has(wire.InformCompRespTime) && a.RespTimeValue != b.RespTimeValue ||
		m.Has(wire.InformCompProducer) && a.Producer != b.Producer)
}

// informText describes the events of a subscription.
func informText(r *wire.InformInfo) string {
	var b strings.Builder
	kind, number, producer := "trap ", "", ""
	switch {
	case r.TrapNumber == wire.InformAllTraps:
		number = "any"
	case r.IsGeneric == 1:
		number = strconv.Itoa(int(r.TrapNumber)) + " (" + smp.TrapName(r.TrapNumber) + ")"
	default:
		number = fmt.Sprintf("%#x", r.TrapNumber)
	}
	if r.IsGeneric == 0 {
		kind = "vendor notice of device "
		if r.Producer != wire.InformAllProducers {
			producer = fmt.Sprintf(", vendor %#06x", r.Producer)
		}
	} else if r.Producer != wire.InformAllProducers {
		producer = fmt.Sprintf(", producer type %d", r.Producer)
	}
	b.WriteString(kind + number + producer)
	if r.Type != wire.InformAllTypes {
		fmt.Fprintf(&b, ", type %d", r.Type)
	}
	switch {
	case !r.GID.IsZero():
		fmt.Fprintf(&b, ", from %v", r.GID)
	case r.LIDRangeBegin != wire.InformAllLIDs:
		fmt.Fprintf(&b, ", from LIDs %d to %d", r.LIDRangeBegin, r.LIDRangeEnd)
	}
	return b.String()
}

// Store format of a subscription. Key: the subscriber's port GUID (8 bytes) and
// the identifying InformInfo (36) with the QP as QPN, Subscribe 1 and
// RespTimeValue 0. Value: version 1, flags (bit 0: made with the SA_Key, bit 1:
// with a GRH), SL, path bits, P_Key index (2), LID (2), Enum (2),
// RespTimeValue, the subscriber's GID (16), and from the GRH the GID (16), GID
// index, hop limit, traffic class, flow label (4).
const (
	subKeyLen   = 8 + wire.InformInfoLen
	subVersion  = 1
	subValueLen = 1 + 1 + 1 + 1 + 2 + 2 + 2 + 1 + 16 + 16 + 1 + 1 + 1 + 4

	subTrusted = 1
	subGRH     = 2
)

func subscriptionKey(s *Subscription) []byte {
	b := make([]byte, subKeyLen)
	binary.BigEndian.PutUint64(b, uint64(s.GID.GUID()))
	info := subscribed(s.Info, s.Addr.QP)
	info.Put(b[8:])
	return b
}

func subscriptionValue(s *Subscription) []byte {
	b := make([]byte, subValueLen)
	a := &s.Addr
	b[0] = subVersion
	if s.Trust {
		b[1] |= subTrusted
	}
	b[2], b[3] = byte(a.SL), a.PathBits
	binary.BigEndian.PutUint16(b[4:], a.PKeyIndex)
	binary.BigEndian.PutUint16(b[6:], uint16(a.LID))
	binary.BigEndian.PutUint16(b[8:], s.Enum)
	b[10] = s.Info.RespTimeValue
	copy(b[11:27], s.GID[:])
	if a.HasGRH {
		b[1] |= subGRH
		copy(b[27:43], a.GRH.GID[:])
		b[43], b[44], b[45] = a.GRH.GIDIndex, a.GRH.HopLimit, a.GRH.TrafficClass
		binary.BigEndian.PutUint32(b[46:], a.GRH.FlowLabel)
	}
	return b
}

// SubscriptionRecord encodes s for the store.
func SubscriptionRecord(s *Subscription) store.Record {
	return store.Record{Table: store.TableSubscriptions, Key: subscriptionKey(s), Value: subscriptionValue(s)}
}

func decodeSubscription(key, value []byte) (*Subscription, error) {
	damaged := func(why string) (*Subscription, error) {
		return nil, fmt.Errorf("sa: stored subscription %x: %s; the record is ignored", key, why)
	}
	if len(key) != subKeyLen || len(value) != subValueLen || value[0] != subVersion {
		return damaged(fmt.Sprintf("a key of %d and a value of %d bytes, version %d", len(key), len(value), version(value)))
	}
	s := &Subscription{
		GID: ib.GID(value[11:27]), Enum: binary.BigEndian.Uint16(value[8:]), Trust: value[1]&subTrusted != 0,
		Addr: mad.Addr{
			LID: ib.LID(binary.BigEndian.Uint16(value[6:])), SL: ib.SL(value[2]), PathBits: value[3], PKeyIndex: binary.BigEndian.Uint16(value[4:]),
		},
	}
	if err := s.Info.Decode(key[8:]); err != nil {
		return nil, err
	}
	s.Addr.QP, s.Info.RespTimeValue = s.Info.QPN, value[10]&0x1F
	if value[1]&subGRH != 0 {
		s.Addr.HasGRH = true
		s.Addr.GRH = mad.GRH{
			GID: ib.GID(value[27:43]), GIDIndex: value[43], HopLimit: value[44], TrafficClass: value[45],
			FlowLabel: binary.BigEndian.Uint32(value[46:]) & 0xFFFFF,
		}
	}
	if string(subscriptionKey(s)) != string(key) {
		return damaged("its key contradicts its value")
	}
	return s, nil
}
