package vm

import (
	"cmp"
	"slices"

	"heddle/ib"
	"heddle/subnet"
)

// AdoptedPrefix begins the names of interfaces that Adopt creates; the GUID follows.
const AdoptedPrefix = "adopted-"

// Adopt lists the operations by which an administrator takes over what a subnet manager keeps because
// its store does not know it: an interface for the address of each function, at its place and with
// the P_Keys of its GUID, and memberships for all other P_Keys. Names of interfaces are not kept in
// the fabric, so theirs are made from their GUIDs.
func Adopt(list []subnet.Kept) (ops []Op) {
	var created []Create
	at := map[ib.GUID]int{} // in created
	for i := range list {
		if k := &list[i]; k.Function {
			at[k.GUID] = len(created)
			created = append(created, Create{I: Interface{
				Name: AdoptedPrefix + k.GUID.String(), GUID: k.GUID, LIDKind: subnet.OwnLID, Place: k.Place,
			}})
		}
	}
	var added []AddMembers
	place := map[ib.PKey]int{} // in added, by P_Key with its membership bit
	for i := range list {
		k := &list[i]
		if k.PKey == 0 {
			continue
		}
		if n, ok := at[k.GUID]; ok {
			created[n].I.addKey(k.PKey)
			continue
		}
		n, ok := place[k.PKey]
		if !ok {
			n = len(added)
			place[k.PKey] = n
			added = append(added, AddMembers{PKey: k.PKey.Base(), Full: k.PKey.IsFull()})
		}
		added[n].GUIDs = append(added[n].GUIDs, k.GUID)
	}
	// Limited memberships come first: a GUID that has both becomes a full member.
	slices.SortFunc(added, func(a, b AddMembers) int {
		if a.Full != b.Full {
			if b.Full {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.PKey, b.PKey)
	})
	for _, op := range created {
		ops = append(ops, op)
	}
	for _, op := range added {
		ops = append(ops, op)
	}
	return ops
}

// addKey adds a P_Key with its membership bit. A full membership includes a limited one.
func (i *Interface) addKey(k ib.PKey) {
	n := slices.IndexFunc(i.Keys, func(m Membership) bool { return m.PKey == k.Base() })
	if n < 0 {
		i.Keys = append(i.Keys, Membership{PKey: k.Base(), Full: k.IsFull()})
		return
	}
	i.Keys[n].Full = i.Keys[n].Full || k.IsFull()
}
