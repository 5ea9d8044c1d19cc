package subnet

import (
	"cmp"
	"slices"

	"heddle/ib"
)

// Kept is an entry of a device that no store knows and that stays, because another manager may have
// given it (package sm/tenure): a P_Key, or the address of a virtual function.
type Kept struct {
	Place    Place   // function 0: the port itself
	GUID     ib.GUID // who has it: port GUID, or the GUID of the function
	PKey     ib.PKey // bit 15: full member; 0: it is an address
	LID      ib.LID  // of an address, if it has one of its own
	Since    int64   // when this manager met it, in nanoseconds of its clock
	Function bool    // an address in a device whose manager assigns them: an interface can take it over
}

// SortKept puts a list in the order of places, GUIDs and P_Keys.
func SortKept(list []Kept) {
	slices.SortFunc(list, func(a, b Kept) int {
		return cmp.Or(cmp.Compare(a.Place.Port, b.Place.Port), cmp.Compare(a.Place.Function, b.Place.Function),
			cmp.Compare(a.GUID, b.GUID), cmp.Compare(a.PKey.Base(), b.PKey.Base()), cmp.Compare(a.PKey, b.PKey))
	})
}
