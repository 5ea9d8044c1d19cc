package main

import (
	"strings"
	"testing"
)

// TestUpPairActive: 'heddle up --pair' says which of its managers is active, when that changes.
func TestUpPairActive(t *testing.T) {
	var out strings.Builder
	tell := &teller{out: &out}
	one, two := &spare{name: "manager 1", api: "127.0.0.1:1"}, &spare{name: "manager 2", api: "127.0.0.1:2"}
	tell.started(one, 10)
	tell.started(two, 20)
	tell.lines(two, strings.NewReader("level=INFO msg=\"this manager is active\"\nSUBNET UP\nSUBNET UP\n"))
	tell.lines(one, strings.NewReader("SUBNET UP\n"))
	tell.started(one, 11) // it ended
	tell.lines(one, strings.NewReader("SUBNET UP\n"))
	want := `manager 2: level=INFO msg="this manager is active"
manager 2: SUBNET UP
manager 2 is active: pid 20, page http://127.0.0.1:2/
manager 2: SUBNET UP
manager 1: SUBNET UP
manager 1 is active: pid 10, page http://127.0.0.1:1/
manager 1: SUBNET UP
manager 1 is active: pid 11, page http://127.0.0.1:1/
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
