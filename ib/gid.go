package ib

import (
	"encoding/binary"
	"net/netip"
)

// GID is a 128-bit global identifier: subnet prefix and GUID.
type GID [16]byte

// MakeGID joins a subnet prefix and a port GUID.
func MakeGID(p SubnetPrefix, g GUID) (gid GID) {
	binary.BigEndian.PutUint64(gid[0:8], uint64(p))
	binary.BigEndian.PutUint64(gid[8:16], uint64(g))
	return gid
}

// Prefix is the upper half.
func (g GID) Prefix() SubnetPrefix { return SubnetPrefix(binary.BigEndian.Uint64(g[0:8])) }

// GUID is the lower half.
func (g GID) GUID() GUID { return GUID(binary.BigEndian.Uint64(g[8:16])) }

// IsMulticast reports whether g is a multicast GID (ff00::/8).
func (g GID) IsMulticast() bool { return g[0] == 0xFF }

// String prints the GID in IPv6 form.
func (g GID) String() string { return netip.AddrFrom16(g).String() }
