package vm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"heddle/ib"
	"heddle/ib/sa"
	"heddle/partition"
	"heddle/subnet"
)

// Limits that keep clients from filling the memory or the store.
const (
	maxName       = 128     // characters of a name
	maxAliases    = 254     // of an interface: GUIDInfo tables have 8 bits of entries, two of them its own
	maxKeys       = 1024    // P_Keys of an interface; adapters hold 128, or less
	maxReason     = 512     // bytes of a Reason that is stored
	maxInterfaces = 1 << 18 // far above the LIDs of a subnet, as interfaces may share them
	maxFunctions  = 1 << 18 // with GUIDs of their own; they are never freed
	maxMembers    = 1 << 21 // GUIDs that AddMembers made members, one for each partition
	// maxIPoIB is how many partitions AddMembers may give a broadcast group; a
	// quarter of what a policy can have is left to files.
	maxIPoIB = partition.MaxGroups / 4 * 3
)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

func conflict(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrConflict, fmt.Errorf(format, args...))
}

func noRoom(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrNoRoom, fmt.Errorf(format, args...))
}

// checkName validates the name of an interface.
func checkName(name string) error {
	if name == "" || len(name) > maxName {
		return invalid("the name of an interface has 1 to %d characters, not %d", maxName, len(name))
	}
	if i := strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._:-/", r)
	}); i >= 0 {
		return invalid("the name %q has a character at %d that is none of a–z, A–Z, 0–9 and ._:-/", name, i)
	}
	return nil
}

// checkPKey validates a P_Key without membership bit.
func checkPKey(k ib.PKey) error {
	if k == 0 || k > partition.DefaultKey {
		return invalid("P_Key %v: it is 0x0001 to %v, without the membership bit", k, partition.DefaultKey)
	}
	return nil
}

// checkGUID validates a GUID that was requested for an interface.
func checkGUID(g ib.GUID) error {
	switch g {
	case 0:
		return invalid("no port has GUID 0")
	case sa.WellKnownGUID:
		return invalid("GUID %v is reserved for the subnet administrator of virtual ports: choose another one", g)
	}
	return nil
}

// normal validates the interface of a Create and sorts its P_Keys.
func normal(i *Interface) (*Interface, error) {
	if err := checkName(i.Name); err != nil {
		return nil, err
	}
	n := &Interface{Name: i.Name, GUID: i.GUID, GUIDKind: i.GUIDKind, LIDKind: i.LIDKind, LID: i.LID, Mode: i.Mode}
	if i.GUID == 0 && i.GUIDKind == StaticGUID {
		n.GUIDKind = PoolGUID
	}
	if i.GUID != 0 {
		if err := checkGUID(i.GUID); err != nil {
			return nil, fmt.Errorf("interface %q: %w", i.Name, err)
		}
	}
	switch {
	case i.GUIDKind >= guidKinds:
		return nil, invalid("interface %q: GUID kind %d is not known", i.Name, i.GUIDKind)
	case i.GUID != 0 && i.GUIDKind != StaticGUID:
		return nil, invalid("interface %q: a GUID (%v) was given, but the GUID kind is %v: omit one of the two", i.Name, i.GUID, i.GUIDKind)
	case i.GUIDKind == FunctionGUID && i.LIDKind != subnet.SharedLID:
		return nil, invalid("interface %q: its GUID belongs to the function, and a LID belongs to a GUID, so it cannot have a LID of kind %v: request a shared LID, or a GUID of its own", i.Name, i.LIDKind)
	case i.GUIDKind == FunctionGUID && len(i.Aliases) > 0:
		return nil, invalid("interface %q: its GUID belongs to the function, so it cannot have alias GUIDs: omit them, or request a GUID of its own", i.Name)
	case i.LIDKind > subnet.FloatingLID:
		return nil, invalid("interface %q: LID kind %d is not known", i.Name, i.LIDKind)
	case i.Mode > subnet.MoveMinimal:
		return nil, invalid("interface %q: mode %d of moves is not known", i.Name, i.Mode)
	case i.LID != 0 && !i.LID.IsUnicast():
		return nil, invalid("interface %q: LID %d is no unicast LID (1 to %d)", i.Name, i.LID, ib.LIDMaxUnicast)
	case i.LID != 0 && i.LIDKind == subnet.SharedLID:
		return nil, invalid("interface %q: LID %d was given, but the interface shares the LID of its port: request an own or floating LID, or omit the LID", i.Name, i.LID)
	case len(i.Aliases) > maxAliases:
		return nil, invalid("interface %q: %d alias GUIDs, %d at most", i.Name, len(i.Aliases), maxAliases)
	}
	seen := map[ib.GUID]bool{i.GUID: true}
	for _, a := range i.Aliases {
		if err := checkGUID(a); err != nil {
			return nil, fmt.Errorf("interface %q: alias: %w", i.Name, err)
		}
		if seen[a] {
			return nil, invalid("interface %q: GUID %v is given twice", i.Name, a)
		}
		seen[a] = true
	}
	n.Aliases = slices.Clone(i.Aliases)
	keys, err := normalKeys(i.Keys)
	if err != nil {
		return nil, fmt.Errorf("interface %q: %w", i.Name, err)
	}
	n.Keys = keys
	return n, nil
}

// normalKeys is a list of memberships, ascending and each once.
func normalKeys(list []Membership) ([]Membership, error) {
	if len(list) > maxKeys {
		return nil, invalid("%d P_Keys, %d at most", len(list), maxKeys)
	}
	for _, k := range list {
		if err := checkPKey(k.PKey); err != nil {
			return nil, err
		}
	}
	out := slices.Clone(list)
	slices.SortStableFunc(out, func(a, b Membership) int { return cmp.Compare(a.PKey, b.PKey) })
	out = slices.Compact(out)
	for i := 1; i < len(out); i++ {
		if out[i].PKey == out[i-1].PKey {
			return nil, invalid("P_Key %v is given both as full and as limited member", out[i].PKey)
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	return out, nil
}

// same reports whether e is what a Create requests; n is normal. A value that the Create leaves
// to the core matches any choice.
func (e *entry) same(n *Interface) bool {
	return (n.GUID == 0 && n.GUIDKind == e.GUIDKind || n.GUID != 0 && n.GUID == e.storedGUID()) &&
		n.LIDKind == e.LIDKind && n.Mode == e.Mode &&
		(n.LID == 0 && !e.Pinned || e.Pinned && n.LID == e.LID) &&
		slices.Equal(n.Aliases, e.Aliases) && slices.Equal(n.Keys, e.Keys)
}
