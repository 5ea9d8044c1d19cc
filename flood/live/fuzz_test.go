package live

import (
	"testing"

	"heddle/ib"
	"heddle/ib/sa"
)

// FuzzNodes: an untrusted table is read or refused, and never has more records than its
// bytes permit.
func FuzzNodes(f *testing.F) {
	var m ib.MAD
	sa.New(&m, ib.MethodGetTableResp, sa.AttrNodeRecord, 0, 0)
	m[45] = 14
	f.Add(append(m[:sa.HeaderLen:sa.HeaderLen], make([]byte, 3*sa.NodeRecordLen)...))
	f.Add(m[:20])
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := nodes(b)
		if err == nil && len(got)*(sa.NodeRecordLen-4) > len(b) {
			t.Fatalf("%d records from %d bytes", len(got), len(b))
		}
		ends(got, ib.DefaultSubnetPrefix)
	})
}
