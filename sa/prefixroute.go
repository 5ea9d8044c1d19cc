package sa

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"heddle/ib"
)

// PrefixRoute names the router port that leads to another subnet's GIDs.
type PrefixRoute struct {
	Prefix ib.SubnetPrefix // 0: any
	GUID   ib.GUID         // port GUID of the router; 0: the first router of the subnet
}

const (
	// maxPrefixRoutes bounds a file, because a path query to another subnet scans
	// all routes.
	maxPrefixRoutes = 4096
	maxRouteLine    = 4096
)

// ParsePrefixRoutes reads OpenSM's prefix-routes.conf. Each line has a subnet
// prefix and the port GUID of a router, both in hexadecimal, or * for any prefix
// and for the first router. # begins a comment. Errors give name and line.
func ParsePrefixRoutes(r io.Reader, name string) (routes []PrefixRoute, err error) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, maxRouteLine)
	n := 0
	for in.Scan() {
		n++
		text, _, _ := strings.Cut(in.Text(), "#")
		f := strings.Fields(text)
		if len(f) == 0 {
			continue
		}
		if len(f) != 2 {
			return nil, fmt.Errorf("%s:%d: want a subnet prefix and a router's port GUID, have %d words", name, n, len(f))
		}
		var v [2]uint64
		for i, w := range f {
			if w == "*" {
				continue
			}
			digits := strings.TrimPrefix(strings.TrimPrefix(w, "0x"), "0X")
			if v[i], err = strconv.ParseUint(digits, 16, 64); err != nil {
				return nil, fmt.Errorf("%s:%d: %q is neither a 64-bit hexadecimal number nor *", name, n, w)
			}
		}
		if len(routes) == maxPrefixRoutes {
			return nil, fmt.Errorf("%s:%d: more than %d routes", name, n, maxPrefixRoutes)
		}
		routes = append(routes, PrefixRoute{ib.SubnetPrefix(v[0]), ib.GUID(v[1])})
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", name, n+1, err)
	}
	return routes, nil
}
