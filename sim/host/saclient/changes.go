package saclient

import (
	"heddle/agent/generation"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
)

// Changes asks which paths of a port changed since a generation (PathChangeRecord,
// docs/signalling.md); 0: none is known. The answer begins with its head. An SA without
// generations answers with a StatusError.
func (k *Client) Changes(now mad.Time, port ib.GID, gen uint64, done func(now mad.Time, list []wire.PathChangeRecord, err error)) {
	var m ib.MAD
	generation.Ask(&m, port, gen, false)
	k.Count.Queries++
	k.request(now, &m, func(now mad.Time, data []byte, err error) {
		var list []wire.PathChangeRecord
		if err == nil {
			list, err = generation.Decode(data)
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
