package partition

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"heddle/ib"
)

// TestTranscripts runs the stories of testdata. Commands:
//
//	policy                                            reads a partitions.conf and shows what it means
//	keys GUID [class=switch|router] [alias=GUID] [self]   the P_Keys of a port, and the one for index 0
//	place cap=N [table=(KEY,KEY,...)] [fresh]         a P_Key table that gets the last keys
//
// A full member's key has the highest bit, 0x8000.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		s := &story{policy: Default()}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return s.run(t, d) })
	})
}

type story struct {
	policy *Policy
	keys   []ib.PKey
	index0 ib.PKey
}

func (s *story) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "policy":
		return s.read(t, d.Input)
	case "keys":
		class, aliases := CA, []ib.GUID(nil)
		if a, ok := d.Arg("class"); ok {
			class = map[string]Class{"ca": CA, "switch": Switch, "router": Router}[a.Vals[0]]
		}
		if a, ok := d.Arg("alias"); ok {
			aliases = []ib.GUID{guid(t, a.Vals[0])}
		}
		g, port, self := Resolve(s.policy), guid(t, d.CmdArgs[0].Key), d.HasArg("self")
		s.keys, s.index0 = g.Of(class, port, aliases, self), g.Index0(class, port, aliases, self)
		text := fmt.Sprintln(s.keys)
		if s.index0 != 0 {
			text += fmt.Sprintf("index 0: %v\n", s.index0)
		}
		return text
	case "place":
		p := Placing{Want: s.keys, Index0: s.index0, Fresh: d.HasArg("fresh")}
		d.ScanArgs(t, "cap", &p.Cap)
		if a, ok := d.Arg("table"); ok {
			for _, v := range a.Vals {
				k, err := ib.ParsePKey(v)
				if err != nil {
					t.Fatal(err)
				}
				p.Table = append(p.Table, k)
			}
		}
		table, err := Place(p)
		text := fmt.Sprintln(table)
		if over, ok := errors.AsType[*OverflowError](err); ok {
			text += over.Error() + "\n"
		}
		return text
	}
	t.Fatalf("what is %s?", d.Cmd)
	return ""
}

func guid(t *testing.T, text string) ib.GUID {
	t.Helper()
	v, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	return ib.GUID(v)
}

// read shows members and groups of each partition of a file, and its warnings.
func (s *story) read(t *testing.T, text string) string {
	t.Helper()
	p, warnings, err := Parse(strings.NewReader(text), "partitions.conf")
	if err != nil {
		return "refused: " + err.Error() + "\n"
	}
	s.policy = p
	var b strings.Builder
	for _, w := range warnings {
		fmt.Fprintf(&b, "warning: %v\n", w)
	}
	for i := range p.Partitions {
		q := &p.Partitions[i]
		fmt.Fprintf(&b, "%v %q:", q.PKey, q.Name)
		for _, m := range q.Members {
			fmt.Fprintf(&b, " %v=%v", m, m.As)
		}
		b.WriteByte('\n')
		for _, g := range q.Groups {
			fmt.Fprintf(&b, "  group %v: Q_Key %v, MTU %v, rate %v, SL %d\n", g.MGID, g.QKey, g.MTU, g.Rate, g.SL)
		}
	}
	if !slices.IsSortedFunc(p.Partitions, func(a, b Partition) int { return int(a.PKey) - int(b.PKey) }) {
		t.Error("partitions are not in the order of their P_Keys")
	}
	return b.String()
}
