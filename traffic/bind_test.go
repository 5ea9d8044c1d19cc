package traffic

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/ib"
)

// testHosts are hosts of one name scheme with 32 Gb/s, two to a switch.
func testHosts(n int) (out []Host) {
	for i := range n {
		out = append(out, Host{
			Name: fmt.Sprintf("host-%d", i), ID: fmt.Sprintf("H%d", i), Port: fabric.Ref{Node: int32(i), Port: 1},
			EndPort: int32(i), Switch: int32(i / 2), LID: ib.LID(i + 100), Gbps: 32,
		})
	}
	return out
}

// checkDemand checks what holds for every demand.
func checkDemand(t *testing.T, text string, d *Demand) {
	t.Helper()
	in := func(h int32) bool { return h >= 0 && int(h) < d.Hosts }
	for _, s := range d.Streams {
		ok := in(s.Src) && s.To != s.Src && (s.To < 0 || in(s.To)) && s.Rate > 0 && s.Rate <= 1 &&
			s.Share >= 0 && s.Share <= 1
		if d.Members == nil {
			ok = ok && (s.To >= 0 || len(s.Among) > 1) && (s.To < 0) == (s.Share == 0)
		}
		if !ok {
			t.Fatalf("%q: stream %+v", text, s)
		}
	}
	for _, x := range d.Steps {
		var src, dst []int32
		for _, p := range x.Pairs {
			if !in(p[0]) || !in(p[1]) || p[0] == p[1] || slices.Contains(src, p[0]) || slices.Contains(dst, p[1]) {
				t.Fatalf("%q: step with %v", text, p)
			}
			src, dst = append(src, p[0]), append(dst, p[1])
		}
		if x.Bytes < 1 || x.Times < 1 || len(x.Pairs) == 0 {
			t.Fatalf("%q: step %+v", text, x)
		}
	}
	if len(d.Streams)+len(d.Steps)+len(d.Messages) == 0 {
		t.Fatalf("%q: nobody sends", text)
	}
}

func mustBind(t *testing.T, text string, n int, seed uint64) *Demand {
	t.Helper()
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	d, err := s.Bind(testHosts(n), seed, nil)
	if err != nil {
		t.Fatal(err)
	}
	checkDemand(t, text, d)
	return d
}

// TestBind: who sends to whom.
func TestBind(t *testing.T) {
	pairs := func(d *Demand) (out [][2]int32) {
		for _, s := range d.Streams {
			out = append(out, [2]int32{s.Src, s.To})
		}
		return out
	}
	if got := pairs(mustBind(t, "shift:-1", 3, 1)); !reflect.DeepEqual(got, [][2]int32{{0, 2}, {1, 0}, {2, 1}}) {
		t.Errorf("shift: %v", got)
	}
	if got := pairs(mustBind(t, "pair:H2>103", 5, 1)); !reflect.DeepEqual(got, [][2]int32{{2, 3}}) {
		t.Errorf("pair: %v", got)
	}
	for _, n := range []int{4, 5, 64} {
		one, both := mustBind(t, "bisection", n, 3), mustBind(t, "bisection:both", n, 3)
		if len(one.Streams) != n/2 || len(both.Streams) != n/2*2 {
			t.Errorf("bisection of %d hosts: %d and %d streams", n, len(one.Streams), len(both.Streams))
		}
		for _, s := range both.Streams {
			if !slices.Contains(pairs(both), [2]int32{s.To, s.Src}) {
				t.Errorf("bisection:both: nobody answers %d", s.Src)
			}
		}
	}
	seen := map[int32]bool{}
	for _, p := range pairs(mustBind(t, "permutation", 50, 1)) {
		if seen[p[1]] {
			t.Errorf("permutation: two send to %d", p[1])
		}
		seen[p[1]] = true
	}
	hot := mustBind(t, "hot:5%:3", 50, 1)
	at := map[int32]int{}
	for _, s := range hot.Streams {
		if s.To >= 0 {
			at[s.To]++
		}
	}
	if len(hot.Streams) != 50 || len(at) != 3 {
		t.Errorf("hot: %d streams, hot hosts %v", len(hot.Streams), at)
	}
	for h, n := range at {
		if n < 15 || n > 16 || hot.Streams[h].To >= 0 {
			t.Errorf("hot: %d hosts have %d, which sends to %d", n, h, hot.Streams[h].To)
		}
	}
	if d := mustBind(t, "hot:100%:2", 9, 1); len(d.Streams) != 7 || d.Streams[0].Among != nil {
		t.Errorf("hot:100%%: %+v", d.Streams)
	}
	few := mustBind(t, "random,rate=8Gbps,hosts=host-1|H3|host-4", 9, 1)
	if len(few.Streams) != 3 || few.Streams[0].Rate != 0.25 || len(few.Streams[0].Among) != 3 {
		t.Errorf("random: %+v", few.Streams)
	}
	if d := mustBind(t, "broadcast:host-3", 9, 1); d.Sender != 3 || len(d.Members) != 9 || d.Pairs() != 9 {
		t.Errorf("broadcast: %+v", d)
	}
}

// TestSteps: collectives bring every part to every rank. Rank i knows what bit i
// of known says.
func TestSteps(t *testing.T) {
	for _, n := range []int{2, 3, 4, 5, 8, 13, 16} {
		for _, kind := range []string{"ring-all-reduce", "recursive-doubling", "all-to-all"} {
			d := mustBind(t, kind+":1000", n, 1)
			known := make([]uint64, n)
			for i := range known {
				known[i] = 1 << i
			}
			steps, bytes := 0, 0.0
			for _, x := range d.Steps {
				for range x.Times {
					was := slices.Clone(known)
					for _, p := range x.Pairs {
						if kind == "all-to-all" {
							known[p[1]] |= 1 << p[0]
						} else {
							known[p[1]] |= was[p[0]]
						}
					}
					steps++
					bytes += float64(x.Bytes)
				}
			}
			for i, k := range known {
				if k != 1<<n-1 {
					t.Errorf("%s of %d: rank %d knows %b", kind, n, i, k)
				}
			}
			want := map[string]int{"ring-all-reduce": 2 * (n - 1), "all-to-all": n - 1}[kind]
			if want > 0 && steps != want {
				t.Errorf("%s of %d: %d steps, want %d", kind, n, steps, want)
			}
			if each := bytes / float64(steps); kind == "ring-all-reduce" && each != math.Ceil(1000/float64(n)) {
				t.Errorf("ring of %d: %v bytes a step", n, each)
			}
		}
	}
}

// TestSeed: the seed decides everything that is drawn.
func TestSeed(t *testing.T) {
	for _, text := range []string{"permutation", "bisection", "hot:5%"} {
		a, b, c := mustBind(t, text, 40, 1), mustBind(t, text, 40, 1), mustBind(t, text, 40, 2)
		a.Spec, b.Spec, c.Spec = nil, nil, nil
		if !reflect.DeepEqual(a, b) || reflect.DeepEqual(a, c) {
			t.Errorf("%s: equal seeds agree %v, different ones %v", text, reflect.DeepEqual(a, b), reflect.DeepEqual(a, c))
		}
	}
}

// TestBindErrors: patterns that the hosts cannot carry out.
func TestBindErrors(t *testing.T) {
	for _, c := range []struct {
		text  string
		hosts int
		says  string
	}{
		{"permutation", 1, "1 hosts"},
		{"permutation,hosts=gpu-*", 4, `names no host of the fabric; names are "host-0" to "host-3"`},
		{"permutation,hosts=host-2", 4, `chooses only "host-2"`},
		{"shift:8", 4, "each would send to itself"},
		{"hot:5%:4", 4, "at least one host must be left"},
		{"hot:5%:1", 2, "3 hosts are needed"},
		{"pair:host-1>host-9", 4, `"host-9"`},
		{"pair:host-1>H1", 4, "to itself"},
		{"broadcast:nobody", 4, `"nobody"`},
		{"broadcast:host-0,hosts=host-1|host-2", 4, "not one of the hosts"},
		{"random,rate=40Gbps", 4, "carries 32 Gb/s, and 40 are asked for"},
		{"trace:x", 4, "no messages"},
	} {
		s, err := Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Bind(testHosts(c.hosts), 1, nil)
		var e *SpecError
		if !errors.As(err, &e) || !strings.Contains(e.Problem, c.says) {
			t.Errorf("%q on %d hosts: %v, want %q", c.text, c.hosts, err, c.says)
		}
	}
}

func TestReadTrace(t *testing.T) {
	text := "# a comment\n2us host-1 H0 64KiB\n\n1500ns 103 host-2 8 # late\n"
	got, err := ReadTrace(strings.NewReader(text), testHosts(4))
	want := []Message{{1500, 3, 2, 8}, {2000, 1, 0, 65536}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v %+v, want %+v", err, got, want)
	}
	for text, says := range map[string]string{
		"1us host-0 host-1":               "line 1: 3 words",
		"1us host-0 host-1 8\n5 H0 H1 8":  `line 2: "5": want a time`,
		"1us host-0 host-9 8":             `"host-9"`,
		"1us host-0 H0 8":                 "to itself",
		"1us host-0 host-1 0":             `"0": want a size`,
		"1us host-0 " + long + "x 1":      "line 1: ",
		"\n\n-1us host-0 host-1 8":        `line 3: "-1us"`,
		"9999999h host-0 host-1 8\n2us x": `line 1: "9999999h"`,
	} {
		_, err := ReadTrace(strings.NewReader(text), testHosts(4))
		var e *TraceError
		if !errors.As(err, &e) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40q: %v, want %q", text, err, says)
		}
	}
}

var long = strings.Repeat("x", 100_000)

func FuzzReadTrace(f *testing.F) {
	f.Add("1us host-0 host-1 8\n# x\n2ms H1 100 1GiB")
	f.Add("1us a b c d")
	hosts := testHosts(4)
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ReadTrace(strings.NewReader(text), hosts)
		if err != nil {
			if e := (*TraceError)(nil); !errors.As(err, &e) || e.Line < 1 {
				t.Fatal(err)
			}
			return
		}
		for i, m := range list {
			if m.Src == m.Dst || m.Bytes < 1 || m.At < 0 || i > 0 && m.At < list[i-1].At {
				t.Fatalf("%q gives %+v", text, list)
			}
		}
	})
}
