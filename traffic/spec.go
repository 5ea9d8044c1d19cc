package traffic

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind is a family of patterns.
type Kind uint8

// The patterns.
const (
	Permutation       Kind = iota // each host sends to one other, drawn at random; each receives from one
	Shift                         // host i sends to host i+K
	Random                        // every packet goes to a host drawn at random
	Bisection                     // random halves; each host of one sends to one of the other
	Hot                           // a share of the packets of each host goes to one of a few hosts
	Pair                          // one host sends to another
	RingAllReduce                 // 2(n-1) steps, each to the next rank
	RecursiveDoubling             // log2(n) exchanges with the rank that differs in one bit
	AllToAll                      // n-1 shifts
	Broadcast                     // one host sends to a multicast group of all
	Trace                         // messages of a file
)

// kindInfo says how a pattern is written.
type kindInfo struct {
	name, args, meaning string
	most                int // arguments
}

var kinds = [...]kindInfo{
	Permutation:       {"permutation", "", "each host sends to one other host, drawn at random", 0},
	Shift:             {"shift", ":K", "host i sends to host i+K", 1},
	Random:            {"random", "", "every packet goes to a host drawn at random", 0},
	Bisection:         {"bisection", "[:one|both]", "random halves; the hosts of one half send to the other, or both", 1},
	Hot:               {"hot", ":P%[:N]", "P % of the packets go to one of N hot hosts, the rest anywhere", 2},
	Pair:              {"pair", ":SRC>DST", "one host sends to another", 1},
	RingAllReduce:     {"ring-all-reduce", "[:SIZE]", "2(n-1) steps to the next host, SIZE/n bytes each", 1},
	RecursiveDoubling: {"recursive-doubling", "[:SIZE]", "all-reduce by log2(n) exchanges of SIZE bytes", 1},
	AllToAll:          {"all-to-all", "[:SIZE]", "n-1 shifts, SIZE bytes for each pair", 1},
	Broadcast:         {"broadcast", "[:SRC]", "one host sends to a multicast group of all hosts", 1},
	Trace:             {"trace", ":FILE", "messages of a file: TIME SRC DST BYTES on each line", 1},
}

// String prints "shift".
func (k Kind) String() string { return kinds[k].name }

// Usage lists the patterns: how each is written, and what it means.
func Usage() (list [][2]string) {
	for _, k := range kinds {
		list = append(list, [2]string{k.name + k.args, k.meaning})
	}
	return list
}

// Names are the names of the patterns.
func Names() (list []string) {
	for _, k := range kinds {
		list = append(list, k.name)
	}
	return list
}

// Spec is a pattern as a user wrote it, see docs/traffic.md for the syntax:
//
//	NAME[:ARGUMENT…][,KEY=VALUE…]
type Spec struct {
	Text string
	Kind Kind

	K      int      // Shift: the distance, not 0
	Both   bool     // Bisection: both halves send
	Share  float64  // Hot: of the packets, above 0, at most 1
	Spots  int      // Hot: number of hot hosts, at least 1
	Size   int64    // collectives: bytes, at least 1
	Src    string   // Pair, Broadcast: host; "": the first
	Dst    string   // Pair: host
	File   string   // Trace
	Choose []string // names and name patterns of hosts; nil: all

	// Rate is the offered rate: a share of the host's link, or Gb/s. The load of a
	// question multiplies it.
	Rate Rate
	// Start and End bound when packets are made; End 0: no end.
	Start, End time.Duration
	Arrival    Arrival
	On, Off    time.Duration // OnOff: mean lengths
	Window     int           // Closed: packets
	Queue      Queue
	Payload    int // bytes of a packet, 1–4096
	SL         int // service level, -1: that of the path
}

// Rate is an offered rate: a share of the link above 0 and at most 1, or Gb/s if
// that is not 0.
type Rate struct{ Share, Gbps float64 }

// String prints "80 %" or "25 Gb/s".
func (r Rate) String() string {
	if r.Gbps > 0 {
		return strconv.FormatFloat(r.Gbps, 'g', 6, 64) + " Gb/s"
	}
	return strconv.FormatFloat(r.Share*100, 'g', 6, 64) + " %"
}

// SpecError says what is wrong with a pattern.
type SpecError struct {
	Spec    string // the whole pattern
	Part    string // the wrong part of it
	Column  int    // where Part begins, from 1; 0: the pattern does not suit the hosts
	Problem string // what is wrong, and what is possible
}

func (e *SpecError) Error() string {
	if e.Column == 0 {
		return fmt.Sprintf("traffic: pattern %q: %s", e.Spec, e.Problem)
	}
	return fmt.Sprintf("traffic: pattern %q, column %d: %q: %s", e.Spec, e.Column, e.Part, e.Problem)
}

// parser splits a pattern and remembers where parts are.
type parser struct {
	text string
	s    *Spec
	keys map[string]bool
}

func (p *parser) fail(at int, part, format string, a ...any) error {
	return &SpecError{Spec: p.text, Part: part, Column: at + 1, Problem: fmt.Sprintf(format, a...)}
}

// unfit reports parts that do not go together.
func (p *parser) unfit(format string, a ...any) error {
	text := p.text
	if len(text) > maxSpec {
		text = text[:32] + "…"
	}
	return &SpecError{Spec: text, Problem: fmt.Sprintf(format, a...)}
}

// maxSpec bounds the length of a pattern in bytes.
const maxSpec = 4096

// Parse reads a pattern. Errors are *SpecError.
func Parse(text string) (*Spec, error) {
	p := &parser{text: text, keys: map[string]bool{}, s: &Spec{
		Text: text, Spots: 1, Size: 1 << 20, Rate: Rate{Share: 1}, Payload: 2048, SL: -1,
	}}
	if len(text) > maxSpec {
		return nil, p.unfit("%d bytes long; at most %d are permitted", len(text), maxSpec)
	}
	head, rest, more := strings.Cut(text, ",")
	at := len(head) + 1
	if err := p.head(head); err != nil {
		return nil, err
	}
	for more {
		var part string
		part, rest, more = strings.Cut(rest, ",")
		if err := p.option(at, part); err != nil {
			return nil, err
		}
		at += len(part) + 1
	}
	return p.s, p.finish()
}

// head reads the name and its arguments.
func (p *parser) head(head string) error {
	name, rest, given := strings.Cut(head, ":")
	i := slices.IndexFunc(kinds[:], func(k kindInfo) bool { return k.name == name })
	if i < 0 {
		return p.fail(0, name, "unknown pattern; possible are %s", strings.Join(Names(), ", "))
	}
	p.s.Kind = Kind(i)
	k := &kinds[i]
	var args []string
	if given {
		args = strings.SplitN(rest, ":", max(k.most, 1))
	}
	at := len(name) + 1
	if given && k.most == 0 {
		return p.fail(at, rest, "%s takes no argument", name)
	}
	if len(args) == 0 && strings.HasPrefix(k.args, ":") {
		return p.fail(0, name, "an argument is missing: %s%s", k.name, k.args)
	}
	for n, a := range args {
		if err := p.argument(n, at, a); err != nil {
			return err
		}
		at += len(a) + 1
	}
	return nil
}

func (p *parser) argument(n, at int, a string) (err error) {
	s := p.s
	switch s.Kind {
	case Shift:
		if s.K, err = strconv.Atoi(a); err != nil || s.K == 0 {
			return p.fail(at, a, "want a distance, a whole number other than 0")
		}
	case Bisection:
		if a != "one" && a != "both" {
			return p.fail(at, a, "want one or both")
		}
		s.Both = a == "both"
	case Hot:
		if n == 0 {
			digits, ok := strings.CutSuffix(a, "%")
			v, ok2 := positive(digits)
			if !ok || !ok2 || v > 100 {
				return p.fail(at, a, "want a share of the packets above 0%% and at most 100%%, such as 5%%")
			}
			s.Share = v / 100
		} else if s.Spots, err = strconv.Atoi(a); err != nil || s.Spots < 1 {
			return p.fail(at, a, "want a number of hot hosts, 1 or more")
		}
	case Pair:
		src, dst, ok := strings.Cut(a, ">")
		if !ok || src == "" || dst == "" {
			return p.fail(at, a, "want SRC>DST, two hosts by name or LID")
		}
		s.Src, s.Dst = src, dst
	case RingAllReduce, RecursiveDoubling, AllToAll:
		var ok bool
		if s.Size, ok = parseSize(a); !ok {
			return p.fail(at, a, "want a size above 0 and at most 1 TiB, such as 65536 or 64MiB")
		}
	case Broadcast, Trace:
		if a == "" {
			return p.fail(at, a, "nothing is named")
		}
		s.Src = a
		if s.Kind == Trace {
			s.Src, s.File = "", a
		}
	}
	return nil
}

// Collective reports whether a pattern consists of steps.
func (k Kind) Collective() bool { return k == RingAllReduce || k == RecursiveDoubling || k == AllToAll }

// finish applies what depends on several parts, and reports parts that exclude
// each other.
func (p *parser) finish() error {
	s := p.s
	fixed := s.Kind.Collective() || s.Kind == Trace
	if fixed {
		for _, k := range []string{"rate", "source", "end", "start"} {
			if p.keys[k] {
				return p.fail(0, s.Kind.String(), "%s does not apply: the pattern says when messages are sent", k)
			}
		}
	}
	if s.End != 0 && s.End <= s.Start {
		return p.unfit("it ends at %v, which is not after its start at %v", s.End, s.Start)
	}
	pulls := fixed || s.Arrival == Closed || s.Arrival == Saturated
	switch {
	case pulls && !p.keys["queue"]:
		s.Queue = QueueStream
	case pulls && s.Queue != QueueStream:
		what := "source=" + s.Arrival.String()
		if fixed {
			what = s.Kind.String()
		}
		return p.unfit("%s makes a packet when the one before has left, so it needs queue=stream", what)
	}
	if p.keys["rate"] && s.Arrival == Saturated {
		return p.unfit("source=saturated always has a packet ready; omit rate, or choose another source")
	}
	return nil
}

// positive reads a finite number above 0.
func positive(s string) (float64, bool) {
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil && v > 0 && v <= 1e9
}

// parseSize reads bytes: 65536, 64KiB, 1MiB, 2GiB.
func parseSize(s string) (int64, bool) {
	unit := int64(1)
	for i, u := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if d, ok := strings.CutSuffix(s, u); ok {
			s, unit = d, 1<<(10*(i+1))
		}
	}
	v, err := strconv.ParseInt(s, 10, 64)
	return v * unit, err == nil && v > 0 && v <= (1<<40)/unit
}

// Duty is the share of the time in which a source is on.
func (s *Spec) Duty() float64 {
	if s.Arrival != OnOff {
		return 1
	}
	return float64(s.On) / float64(s.On+s.Off)
}

// matches reports whether a host is chosen by a list of name patterns.
func (s *Spec) matches(h *Host) bool {
	if len(s.Choose) == 0 {
		return true
	}
	return slices.ContainsFunc(s.Choose, func(glob string) bool {
		for _, name := range []string{h.Name, h.ID} {
			if ok, _ := path.Match(glob, name); ok || glob == name {
				return true
			}
		}
		return false
	})
}
