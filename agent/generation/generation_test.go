package generation

import (
	"errors"
	"slices"
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
)

const history = uint64(7) << 32

// answer is an answer with records at a distance of size bytes.
func answer(method ib.Method, size int, list ...wire.PathChangeRecord) []byte {
	var m ib.MAD
	wire.New(&m, method, wire.AttrPathChangeRecord, 0, 0)
	m[44], m[45] = byte(size/8>>8), byte(size/8)
	b := append([]byte(nil), m[:wire.HeaderLen]...)
	for i := range list {
		b = append(b, make([]byte, max(size, wire.PathChangeRecordLen))...)
		list[i].Put(b[len(b)-max(size, wire.PathChangeRecordLen):])
	}
	return b
}

var (
	head = wire.PathChangeRecord{Generation: history | 5, Head: true}
	one  = wire.PathChangeRecord{Generation: history | 4, Lost: true, Path: wire.PathRecord{DLID: 9, SLID: 4}}
)

// TestDecode: a list begins with its head and has no other; anything broken is no list, and not a
// shorter one.
func TestDecode(t *testing.T) {
	const size = wire.PathChangeRecordLen
	table := ib.MethodGetTableResp
	zero := wire.PathChangeRecord{Head: true}
	for name, c := range map[string]struct {
		b    []byte
		want []wire.PathChangeRecord
	}{
		"a head":           {answer(table, size, head), []wire.PathChangeRecord{head}},
		"a change":         {answer(table, size, head, one), []wire.PathChangeRecord{head, one}},
		"longer records":   {answer(table, size+8, head, one), []wire.PathChangeRecord{head, one}},
		"a Get":            {append(answer(ib.MethodGetResp, 0, head), make([]byte, 120)...), []wire.PathChangeRecord{head}},
		"nothing":          {nil, nil},
		"no record":        {answer(table, size), nil},
		"half a record":    {answer(table, size, head)[:wire.HeaderLen+size-1], nil},
		"short records":    {answer(table, size-8, head), nil},
		"no distance":      {answer(table, 0, head), nil},
		"no head":          {answer(table, size, one), nil},
		"two heads":        {answer(table, size, head, one, head), nil},
		"no generation":    {answer(table, size, zero, one), nil},
		"half a Get's one": {answer(ib.MethodGetResp, 0, head)[:wire.HeaderLen+size-1], nil},
	} {
		list, err := Decode(c.b)
		if !slices.Equal(list, c.want) || (err == nil) != (c.want != nil) || err != nil && !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
	}
}

// TestAsk: the question has the generation and the port, and only them.
func TestAsk(t *testing.T) {
	port := ib.MakeGID(1, 2)
	for _, head := range []bool{false, true} {
		var m ib.MAD
		Ask(&m, port, history|4, head)
		var h wire.Header
		var r wire.PathChangeRecord
		want := wire.PathChangeRecord{Generation: history | 4, Path: wire.PathRecord{SGID: port}}
		if h.Decode(m[:]) != nil || r.Decode(wire.Data(&m)[:wire.PathChangeRecordLen]) != nil || r != want ||
			h.ComponentMask != wire.PathChangeCompGeneration|wire.PathChangeCompSGID ||
			m.AttrID() != wire.AttrPathChangeRecord || (m.Method() == ib.MethodGet) != head || (m.Method() == ib.MethodGetTable) == head {
			t.Errorf("%v: %+v, %+v", head, h, r)
		}
	}
}

// TestTracker: what each event leaves open, and where it takes the host.
func TestTracker(t *testing.T) {
	report := func(gen, before uint64, more bool) *wire.PathNotice {
		return &wire.PathNotice{Generation: gen, Before: before, More: more}
	}
	var x Tracker
	step := func(name string, got, want Verdict, have, sure uint64) {
		t.Helper()
		if got != want || x.Have() != have || x.Sure() != sure {
			t.Errorf("%s: verdict %d, want %d; at %#x, sure of %#x, want %#x and %#x", name,
				got, want, x.Have(), x.Sure(), have, sure)
		}
	}
	step("before all", x.Reported(report(history|5, history|4, false), true), Unknown, 0, 0)
	if whole, _ := x.Answered(&head); !whole || x.Have() != history|5 {
		t.Error("the first answer leaves no doubt")
	}
	step("the next one", x.Reported(report(history|6, history|5, false), true), Follows, history|6, history|5)
	step("a repetition", x.Reported(report(history|6, history|5, false), true), Follows, history|6, history|5)
	step("one of several", x.Reported(report(history|7, history|6, true), true), Follows, history|6, history|5)
	step("the last of them", x.Reported(report(history|7, history|6, false), true), Follows, history|7, history|5)
	step("one after a lost one", x.Reported(report(history|9, history|8, false), true), Missed, history|7, history|5)
	step("any path", x.Reported(report(history|8, history|7, false), false), Missed, history|7, history|5)
	step("another history", x.Reported(report(8<<32|1, 8<<32, false), true), Missed, history|7, history|5)
	step("no generations", x.Reported(report(0, 0, false), true), Absent, history|7, history|5)
	for _, c := range []struct {
		gen    uint64
		covers bool
	}{{history | 4, true}, {history | 5, true}, {history | 6, false}, {8<<32 | 1, false}, {0, false}} {
		if x.Covers(report(c.gen, 0, false)) != c.covers {
			t.Errorf("%#x: covered is not %v", c.gen, c.covers)
		}
	}
	late := wire.PathChangeRecord{Generation: history | 6, Head: true}
	if whole, newer := x.Answered(&late); whole || !newer || x.Have() != history|7 || x.Sure() != history|6 {
		t.Errorf("an answer from before a Report: %v, %v, %#x", whole, newer, x.Have())
	}
	all := wire.PathChangeRecord{Generation: history | 9, Head: true, All: true}
	if whole, _ := x.Answered(&all); !whole || x.Have() != history|9 {
		t.Errorf("an answer that names none: %#x", x.Have())
	}
	other := wire.PathChangeRecord{Generation: 8<<32 | 1, Head: true}
	if whole, _ := x.Answered(&other); !whole || x.Have() != 8<<32|1 {
		t.Errorf("another history: %#x", x.Have())
	}
	x.Refused(ib.StatusBusy)
	step("a busy manager", x.Reported(report(8<<32|2, 8<<32|1, false), true), Follows, 8<<32|2, 8<<32|1)
	x.Refused(0x000C)
	step("a manager without", x.Reported(report(8<<32|3, 8<<32|2, false), true), Absent, 8<<32|2, 8<<32|1)
	if x.Known() {
		t.Error("it is asked again")
	}
	x.Restart()
	x.Forget()
	step("forgotten", x.Reported(report(8<<32|3, 8<<32|2, false), true), Unknown, 0, 0)
}

// TestNewer: values of a Report count while none that are newer have come, by a Report or by an
// answer.
func TestNewer(t *testing.T) {
	report := func(gen uint64) *wire.PathNotice { return &wire.PathNotice{Generation: gen, Before: gen - 1} }
	var x Tracker
	if x.Newer(report(history | 5)) {
		t.Error("before the first answer")
	}
	x.Answered(&head)
	for _, c := range []struct {
		gen   uint64
		newer bool
	}{{history | 5, false}, {history | 8, true}, {history | 7, false}, {history | 8, true}, {8<<32 | 9, false}} {
		if x.Newer(report(c.gen)) != c.newer {
			t.Errorf("%#x: newer is not %v", c.gen, c.newer)
		}
	}
	older := wire.PathChangeRecord{Generation: history | 7, Head: true}
	if _, newer := x.Answered(&older); newer {
		t.Error("an answer takes newer values back")
	}
	newest := wire.PathChangeRecord{Generation: history | 9, Head: true}
	if _, newer := x.Answered(&newest); !newer || x.Newer(report(history|9)) {
		t.Error("an answer is not taken as the newest")
	}
}

// FuzzDecode: no answer upsets the decoder, and what it takes begins with its head.
func FuzzDecode(f *testing.F) {
	f.Add(answer(ib.MethodGetTableResp, wire.PathChangeRecordLen, head, one))
	f.Add(answer(ib.MethodGetResp, 0, head))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := Decode(b)
		if err == nil && (len(list) == 0 || !list[0].Head || list[0].Generation == 0 ||
			len(list)*wire.PathChangeRecordLen > len(b)) {
			t.Fatalf("%+v", list)
		}
	})
}
