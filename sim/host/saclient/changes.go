package saclient

import (
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
)

// Changes asks which paths of a port changed since a generation (PathChangeRecord,
// docs/signalling.md); 0: none is known. The answer begins with its head. An SA without
// generations answers with a StatusError.
func (k *Client) Changes(now mad.Time, port ib.GID, gen uint64, done func(now mad.Time, list []wire.PathChangeRecord, err error)) {
	var m ib.MAD
	wire.New(&m, ib.MethodGetTable, wire.AttrPathChangeRecord, 0, wire.PathChangeCompGeneration|wire.PathChangeCompSGID)
	(&wire.PathChangeRecord{Generation: gen, Path: wire.PathRecord{SGID: port}}).Put(wire.Data(&m))
	k.Count.Queries++
	k.request(now, &m, func(now mad.Time, data []byte, err error) {
		var list []wire.PathChangeRecord
		if err == nil {
			list, err = changes(data)
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

// changes are the records of a response, at least the head.
func changes(data []byte) ([]wire.PathChangeRecord, error) {
	var h wire.Header
	if err := h.Decode(data); err != nil {
		return nil, err
	}
	data = data[wire.HeaderLen:]
	size := int(h.AttrOffset) * 8
	if size < wire.PathChangeRecordLen || len(data) < size {
		return nil, ErrShort
	}
	var list []wire.PathChangeRecord
	for ; len(data) >= size; data = data[size:] {
		var r wire.PathChangeRecord
		if err := r.Decode(data[:wire.PathChangeRecordLen]); err != nil {
			return nil, err
		}
		if r.Head != (len(list) == 0) {
			return nil, ErrShort
		}
		list = append(list, r)
	}
	return list, nil
}
