package flood

import (
	"bytes"
	"fmt"
	"strings"

	"heddle/ib"
	"heddle/ib/sa"
	"heddle/mad"
)

// Query is the kind of query sent to an SA.
type Query uint8

const (
	// PathByGID is SubnAdmGet(PathRecord) from the port's own GID to a
	// destination's, as RDMA CM and IPoIB query.
	PathByGID Query = iota
	// PathByLID is the same by LIDs.
	PathByLID
	// NodeByLID is SubnAdmGet(NodeRecord) of a destination's LID.
	NodeByLID
	// ClassInfo is SubnAdmGet(ClassPortInfo), which costs an SA almost nothing:
	// its time is that of the round trip.
	ClassInfo
)

var queryNames = [...]string{"path", "path-lid", "node", "classportinfo"}

// Queries lists the names of the queries.
func Queries() []string { return queryNames[:] }

// ParseQuery finds a query by name.
func ParseQuery(name string) (Query, error) {
	for i, n := range queryNames {
		if n == name {
			return Query(i), nil
		}
	}
	return 0, fmt.Errorf("no query is called %q (there are %s)", name, strings.Join(queryNames[:], ", "))
}

func (q Query) String() string { return queryNames[q] }

// End is one end port: a destination of queries.
type End struct {
	GID ib.GID
	LID ib.LID
}

// Target is the SA to query, and the destinations.
type Target struct {
	SA    mad.Addr // of the SA; QP 1
	Own   End      // the querying port
	Query Query
	// Ends are the destinations; each query draws one. ClassInfo needs none.
	Ends []End
}

// put encodes the query for end in m, without the transaction ID.
func (t *Target) put(m *ib.MAD, end *End) {
	switch t.Query {
	case PathByGID:
		sa.New(m, ib.MethodGet, sa.AttrPathRecord, 0, sa.PathCompDGID|sa.PathCompSGID|sa.PathCompReversible|sa.PathCompNumbPath)
		r := sa.PathRecord{SGID: t.Own.GID, DGID: end.GID, Reversible: true, NumbPath: 1}
		r.Put(sa.Data(m))
	case PathByLID:
		sa.New(m, ib.MethodGet, sa.AttrPathRecord, 0, sa.PathCompDLID|sa.PathCompSLID|sa.PathCompReversible|sa.PathCompNumbPath)
		r := sa.PathRecord{SLID: t.Own.LID, DLID: end.LID, Reversible: true, NumbPath: 1}
		r.Put(sa.Data(m))
	case NodeByLID:
		sa.New(m, ib.MethodGet, sa.AttrNodeRecord, 0, sa.NodeCompLID)
		r := sa.NodeRecord{LID: end.LID}
		r.Put(sa.Data(m))
	case ClassInfo:
		sa.New(m, ib.MethodGet, ib.AttrClassPortInfo, 0, 0)
	}
}

// Where a record contains the key of its query.
const (
	pathGIDs, pathGIDsEnd = 8, 40 // DGID and SGID
	pathLIDs, pathLIDsEnd = 40, 44
	nodeLID, nodeLIDEnd   = 0, 2
)

// answers reports whether the record in m matches the query req.
func (t *Target) answers(req, m *ib.MAD) bool {
	same := func(from, to int) bool { return bytes.Equal(sa.Data(req)[from:to], sa.Data(m)[from:to]) }
	switch t.Query {
	case PathByGID:
		return same(pathGIDs, pathGIDsEnd)
	case PathByLID:
		return same(pathLIDs, pathLIDsEnd)
	case NodeByLID:
		return same(nodeLID, nodeLIDEnd)
	}
	return true
}
