package sa

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/store"
)

// serviceRecords answers queries for ServiceRecords.
func serviceRecords(q *query) {
	var want wire.ServiceRecord
	if want.Decode(q.data) != nil {
		q.status = statusInvalid
		return
	}
	list := q.v.Services
	if q.has(wire.ServiceCompServiceID) {
		i, _ := slices.BinarySearchFunc(list, want.ServiceID, func(s *Service, id uint64) int {
			switch {
			case s.Record.ServiceID < id:
				return -1
			case s.Record.ServiceID > id:
				return 1
			}
			return 0
		})
		j := i
		for j < len(list) && list[j].Record.ServiceID == want.ServiceID {
			j++
		}
		list = list[i:j]
	}
	for _, s := range list {
		if !serviceMatches(q.mask, &s.Record, &want) || !q.seesService(s) || !q.mayCompareKey(s) {
			continue
		}
		b := q.record()
		if b == nil {
			return
		}
		r := s.Record
		if !q.trusted {
			r.ServiceKey = [16]byte{}
		}
		r.Put(b)
	}
}

// seesService reports whether the requester is in the service's partition.
func (q *query) seesService(s *Service) bool {
	k := s.Record.ServicePKey
	return k.IsEmpty() || q.me < 0 || q.s.HasPKey(q.me, k)
}

// mayCompareKey reports whether a query may select a service by its ServiceKey. For an
// untrusted requester a match would confirm a guessed key, unless the service is its
// own.
func (q *query) mayCompareKey(s *Service) bool {
	return q.trusted || !q.has(wire.ServiceCompServiceKey) || s.Record.ServiceKey == [16]byte{} || q.owns(s)
}

// serviceMatches compares the components in the mask. Names compare as strings,
// up to the first zero byte.
func serviceMatches(m wire.CompMask, r, want *wire.ServiceRecord) bool {
	if m.Has(wire.ServiceCompServiceID) && r.ServiceID != want.ServiceID ||
		m.Has(wire.ServiceCompServiceGID) && r.ServiceGID != want.ServiceGID ||
		m.Has(wire.ServiceCompServicePKey) && r.ServicePKey != want.ServicePKey ||
		m.Has(wire.ServiceCompServiceLease) && r.ServiceLease != want.ServiceLease ||
		m.Has(wire.ServiceCompServiceKey) && r.ServiceKey != want.ServiceKey ||
		m.Has(wire.ServiceCompServiceName) && r.Name() != want.Name() {
		return false
	}
	return wordsMatch(m, wire.ServiceCompData8_0, r.Data8[:], want.Data8[:]) &&
		wordsMatch(m, wire.ServiceCompData16_0, r.Data16[:], want.Data16[:]) &&
		wordsMatch(m, wire.ServiceCompData32_0, r.Data32[:], want.Data32[:]) &&
		wordsMatch(m, wire.ServiceCompData64_0, r.Data64[:], want.Data64[:])
}

func wordsMatch[T comparable](m, first wire.CompMask, a, b []T) bool {
	for i := range a {
		if m.Has(first<<i) && a[i] != b[i] {
			return false
		}
	}
	return true
}

// Store format of a service. Key: its RID (ServiceID 8 bytes, ServiceGID 16,
// ServiceP_Key 2). Value: version 1, the end of its lease (8, Unix nanoseconds,
// 2^63 - 1: never), the GUID of the registering port (8), the ServiceRecord
// (176).
const (
	serviceKeyLen   = 26
	serviceVersion  = 1
	serviceValueLen = 1 + 8 + 8 + wire.ServiceRecordLen
)

func serviceKey(r *wire.ServiceRecord) []byte {
	b := make([]byte, serviceKeyLen)
	binary.BigEndian.PutUint64(b, r.ServiceID)
	copy(b[8:24], r.ServiceGID[:])
	binary.BigEndian.PutUint16(b[24:], uint16(r.ServicePKey))
	return b
}

// serviceValue encodes s for the store; wall is the time from which Until
// counts.
func serviceValue(s *Service, wall int64) []byte {
	b := make([]byte, serviceValueLen)
	until := int64(math.MaxInt64)
	if s.Until != mad.Never && int64(s.Until) < math.MaxInt64-max(wall, 0) {
		until = int64(s.Until) + wall
	}
	b[0] = serviceVersion
	binary.BigEndian.PutUint64(b[1:], uint64(until))
	binary.BigEndian.PutUint64(b[9:], uint64(s.By))
	s.Record.Put(b[17:])
	return b
}

// ServiceRecordOf encodes s for the store. Here s.Until is in Unix nanoseconds;
// mad.Never: no end.
func ServiceRecordOf(s *Service) store.Record {
	return store.Record{Table: store.TableServices, Key: serviceKey(&s.Record), Value: serviceValue(s, 0)}
}

// decodeService decodes a stored service. Its Until is in Unix nanoseconds.
func decodeService(key, value []byte) (*Service, error) {
	if len(key) != serviceKeyLen || len(value) != serviceValueLen || value[0] != serviceVersion {
		return nil, fmt.Errorf("sa: stored service %x: a key of %d and a value of %d bytes, version %d; the record is ignored", key, len(key), len(value), version(value))
	}
	s := &Service{Until: mad.Time(binary.BigEndian.Uint64(value[1:])), By: ib.GUID(binary.BigEndian.Uint64(value[9:]))}
	if err := s.Record.Decode(value[17:]); err != nil {
		return nil, err
	}
	if string(serviceKey(&s.Record)) != string(key) {
		return nil, fmt.Errorf("sa: stored service %x: its record names another service; the record is ignored", key)
	}
	return s, nil
}

// version is the first byte of a stored value, 0 if there is none.
func version(value []byte) byte {
	if len(value) == 0 {
		return 0
	}
	return value[0]
}
