package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"heddle/api"
)

// TestPrintKept: a port is named by its GUID or that of its node, in any form, or by the description.
func TestPrintKept(t *testing.T) {
	list := []api.Kept{
		{PortGUID: "0x0000000000000011", NodeGUID: "0x0000000000000010", Description: "h1", GUID: "0x0000000000000011", PKey: "0x0005", Membership: "full", Since: time.Unix(0, 0)},
		{PortGUID: "0x0000000000000021", NodeGUID: "0x0000000000000020", Description: "h\x1b2", Function: 3, GUID: "0x0000000000000022", LID: 7, Since: time.Unix(0, 0)},
	}
	body, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ports []string
		want  string
	}{
		{nil, "2 kept"},
		{[]string{"0x11"}, "P_Key 0x0005 full"},
		{[]string{"0x10"}, "1 kept"},
		{[]string{"h1"}, "1 kept"},
		{[]string{"0000:0000:0000:0021"}, "address, LID 7"},
		{[]string{"h9", "0x12"}, "nothing is kept at these ports, 2 entries at others"},
	} {
		var w bytes.Buffer
		if err := printKept(&w, body, c.ports, false); err != nil || !strings.Contains(w.String(), c.want) || strings.Contains(w.String(), "\x1b") {
			t.Errorf("%q: %v, %q", c.ports, err, w.String())
		}
	}
	var w bytes.Buffer
	if err := printKept(&w, []byte("[]"), nil, true); err != nil || w.String() != nothingKept+"\n" {
		t.Errorf("%v, %q", err, w.String())
	}
}
