package vm

import (
	"reflect"
	"testing"

	"heddle/ib"
	"heddle/subnet"
)

// TestAdopt: the address of a function becomes an interface with its P_Keys, other P_Keys become
// memberships, and a GUID that has a key twice ends as a full member.
func TestAdopt(t *testing.T) {
	at := subnet.Place{Port: 1, Function: 2}
	got := Adopt([]subnet.Kept{
		{Place: subnet.Place{Port: 1}, GUID: 1, PKey: 0x8005},
		{Place: at, GUID: 7, LID: 9, Function: true},
		{Place: at, GUID: 7, PKey: 0x0005},
		{Place: at, GUID: 7, PKey: 0x8005},
		{Place: at, GUID: 7, PKey: 0x0006},
		{Place: subnet.Place{Port: 3, Function: 1}, GUID: 8, PKey: 0x8005},
		{Place: subnet.Place{Port: 4}, GUID: 4, PKey: 0x0005},
	})
	want := []Op{
		Create{I: Interface{
			Name: "adopted-0x0000000000000007", GUID: 7, LIDKind: subnet.OwnLID, Place: at,
			Keys: []Membership{{PKey: 5, Full: true}, {PKey: 6}},
		}},
		AddMembers{PKey: 5, GUIDs: []ib.GUID{4}},
		AddMembers{PKey: 5, GUIDs: []ib.GUID{1, 8}, Full: true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if c := got[0].(Create); checkName(c.I.Name) != nil {
		t.Errorf("%q is no name of an interface", c.I.Name)
	}
	if Adopt(nil) != nil {
		t.Error("operations for nothing")
	}
}
