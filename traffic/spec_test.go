package traffic

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestParse reads patterns; want changes what a permutation with defaults is.
func TestParse(t *testing.T) {
	for text, want := range map[string]func(s *Spec){
		"permutation": func(*Spec) {},
		"shift:-3":    func(s *Spec) { s.Kind, s.K = Shift, -3 },
		"random,rate=80%,payload=4096,sl=3": func(s *Spec) {
			s.Kind, s.Rate, s.Payload, s.SL = Random, Rate{Share: 0.8}, 4096, 3
		},
		"random,rate=0.25":    func(s *Spec) { s.Kind, s.Rate = Random, Rate{Share: 0.25} },
		"random,rate=25Gbps":  func(s *Spec) { s.Kind, s.Rate = Random, Rate{Gbps: 25} },
		"bisection":           func(s *Spec) { s.Kind = Bisection },
		"bisection:both":      func(s *Spec) { s.Kind, s.Both = Bisection, true },
		"hot:5%":              func(s *Spec) { s.Kind, s.Share = Hot, 0.05 },
		"hot:100%:9":          func(s *Spec) { s.Kind, s.Share, s.Spots = Hot, 1, 9 },
		"pair:host-1>host-2":  func(s *Spec) { s.Kind, s.Src, s.Dst = Pair, "host-1", "host-2" },
		"ring-all-reduce":     func(s *Spec) { s.Kind, s.Queue = RingAllReduce, QueueStream },
		"all-to-all:64KiB":    func(s *Spec) { s.Kind, s.Size, s.Queue = AllToAll, 65536, QueueStream },
		"recursive-doubling:": nil,
		"broadcast:a:b":       func(s *Spec) { s.Kind, s.Src = Broadcast, "a:b" },
		"trace:a/b.txt":       func(s *Spec) { s.Kind, s.File, s.Queue = Trace, "a/b.txt", QueueStream },
		"permutation,start=200us,end=1.5ms,queue=host": func(s *Spec) {
			s.Start, s.End, s.Queue = 200*time.Microsecond, 1500*time.Microsecond, QueueHost
		},
		"permutation,source=onoff:50us/150us": func(s *Spec) {
			s.Arrival, s.On, s.Off = OnOff, 50*time.Microsecond, 150*time.Microsecond
		},
		"permutation,source=closed:16": func(s *Spec) { s.Arrival, s.Window, s.Queue = Closed, 16, QueueStream },
		"permutation,source=saturated": func(s *Spec) { s.Arrival, s.Queue = Saturated, QueueStream },
		"permutation,hosts=gpu-*|x":    func(s *Spec) { s.Choose = []string{"gpu-*", "x"} },
	} {
		got, err := Parse(text)
		if want == nil {
			if err == nil {
				t.Errorf("%q is accepted", text)
			}
			continue
		}
		s := &Spec{Text: text, Spots: 1, Size: 1 << 20, Rate: Rate{Share: 1}, Payload: 2048, SL: -1}
		want(s)
		if err != nil || !reflect.DeepEqual(got, s) {
			t.Errorf("%q: %v\n got %+v\nwant %+v", text, err, got, s)
		}
	}
}

// TestParseErrors: each names the part that is wrong and where it begins.
func TestParseErrors(t *testing.T) {
	for _, c := range []struct {
		text   string
		column int
		part   string
		says   string
	}{
		{"", 1, "", "unknown pattern; possible are permutation, shift"},
		{"shft:1", 1, "shft", "unknown pattern"},
		{"shift", 1, "shift", "shift:K"},
		{"shift:0", 7, "0", "other than 0"},
		{"shift:x", 7, "x", "whole number"},
		{"permutation:3", 13, "3", "takes no argument"},
		{"bisection:half", 11, "half", "one or both"},
		{"hot:5", 5, "5", "such as 5%"},
		{"hot:0%", 5, "0%", "above 0%"},
		{"hot:120%", 5, "120%", "at most 100%"},
		{"hot:NaN%", 5, "NaN%", "above 0%"},
		{"hot:5%:0", 8, "0", "1 or more"},
		{"pair:a", 6, "a", "SRC>DST"},
		{"all-to-all:64KB", 12, "64KB", "64MiB"},
		{"all-to-all:9999999999GiB", 12, "9999999999GiB", "at most 1 TiB"},
		{"trace:", 7, "", "nothing is named"},
		{"random,rate=0", 13, "0", "above 0"},
		{"random,rate=1.5", 13, "1.5", "at most 1"},
		{"random,rate=0Gbps", 13, "0Gbps", "above 0"},
		{"random,rate", 8, "rate", "needs a value"},
		{"random,speed=1", 8, "speed=1", "unknown option; possible are rate, start"},
		{"random,rate=1,rate=1", 15, "rate=1", "twice"},
		{"random,start=5", 14, "5", "with its unit"},
		{"random,start=-1us", 14, "-1us", "with its unit"},
		{"random,end=0s", 12, "0s", "with its unit"},
		{"random,start=2ms,end=1ms", 0, "", "not after its start"},
		{"random,source=burst", 15, "burst", "poisson, constant"},
		{"random,source=onoff", 15, "onoff", "onoff:50us/150us"},
		{"random,source=onoff:5us/0s", 25, "0s", "with its unit"},
		{"random,source=closed:0", 15, "closed:0", "closed:16"},
		{"random,source=poisson:3", 23, "3", "takes no argument"},
		{"random,source=saturated,queue=lane", 0, "", "needs queue=stream"},
		{"random,source=saturated,rate=0.5", 0, "", "omit rate"},
		{"random,queue=vl", 14, "vl", "lane, destination, host, stream"},
		{"random,payload=5000", 16, "5000", "1 to 4096"},
		{"random,sl=16", 11, "16", "0 to 15"},
		{"random,hosts=[", 14, "[", "names with *"},
		{"all-to-all,rate=0.5", 1, "all-to-all", "rate does not apply"},
		{"all-to-all,queue=lane", 0, "", "needs queue=stream"},
		{strings.Repeat("x", 5000), 0, "", "at most 4096"},
	} {
		_, err := Parse(c.text)
		var e *SpecError
		if !errors.As(err, &e) {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if e.Column != c.column || e.Part != c.part || !strings.Contains(e.Problem, c.says) {
			t.Errorf("%q: %+v\nwant column %d, part %q, with %q", c.text, e, c.column, c.part, c.says)
		}
	}
}

// FuzzParse: whatever is read is in its ranges, and errors point into the text.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"permutation", "shift:1,rate=80%", "hot:5%:9,queue=host,source=onoff:1us/2us", "pair:a>b,start=1us,end=2us",
		"trace:x", "all-to-all:1MiB", "broadcast:x,hosts=a*|b", "random,source=closed:3,payload=256,sl=4",
		"bisection:both,rate=3Gbps", "shift:", ",", "hot:1e-300%", "hot:5%:99999999999999999999",
	} {
		f.Add(s)
	}
	hosts := testHosts(5)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			var e *SpecError
			if !errors.As(err, &e) || e.Column > 0 && !strings.HasPrefix(text[min(e.Column-1, len(text)):], e.Part) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if s.Rate.Gbps < 0 || s.Rate.Gbps == 0 && !(s.Rate.Share > 0 && s.Rate.Share <= 1) ||
			s.Payload < 1 || s.Payload > 4096 || s.SL > 15 || s.SL < -1 || s.Size < 1 || s.Spots < 1 ||
			s.Start < 0 || s.End < 0 || s.Arrival == Closed && s.Window < 1 || s.Arrival == OnOff && (s.On <= 0 || s.Off <= 0) {
			t.Fatalf("%q gives %+v", text, s)
		}
		d, err := s.Bind(hosts, 1, nil)
		if err == nil {
			checkDemand(t, text, d)
		} else if e := (*SpecError)(nil); !errors.As(err, &e) || e.Spec != text {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
