package damp

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"heddle/ib"
	"heddle/mad"
)

// TestTranscripts: each command is at a time in seconds and prints what came of it.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		l := New(Config{Free: 3, Hold: 8, Delay: time.Second, Quiet: time.Minute})
		var b strings.Builder
		port := func(d *datadriven.TestData, key string) (p Port) {
			if d.HasArg(key) {
				var s string
				d.ScanArgs(t, key, &s)
				if _, err := fmt.Sscanf(s, "%d:%d", &p.Node, &p.Num); err != nil {
					d.Fatalf(t, "%v", err)
				}
			}
			return p
		}
		show := func(k *Link, now mad.Time) string {
			s := fmt.Sprintf("link %d:%d", k.A.Node, k.A.Num)
			if k.B.Node != 0 {
				s += fmt.Sprintf(" - %d:%d", k.B.Node, k.B.Num)
			}
			s += fmt.Sprintf(", %d failures", k.Failures)
			if k.Until > now {
				s += fmt.Sprintf(", out for %v", k.Until.Sub(now))
			}
			if k.Held {
				s += ", held down"
			}
			return s + "\n"
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			b.Reset()
			var at string
			d.ScanArgs(t, "at", &at)
			since, err := time.ParseDuration(at)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			now := mad.Time(since)
			switch d.Cmd {
			case "fail":
				k, held := l.Failed(now, port(d, "a"), port(d, "b"))
				b.WriteString(show(&k, now))
				if held {
					b.WriteString("told: held down\n")
				}
			case "see": // a sweep reads a port
				fmt.Fprintf(&b, "kept out: %v\n", l.KeptOut(now, port(d, "a"), d.HasArg("changed")))
			case "release":
				for _, k := range l.Release(now) {
					b.WriteString("back: " + show(&k, now))
				}
			case "list":
				for _, k := range l.All(now) {
					b.WriteString(show(&k, now))
				}
			default:
				d.Fatalf(t, "no such command")
			}
			if l.Next() != mad.Never {
				fmt.Fprintf(&b, "next release at %v\n", time.Duration(l.Next()))
			}
			return b.String()
		})
	})
}

// TestBounded: a fabric whose every link fails takes no more memory than for the links that are
// remembered, and links that are good for long make room.
func TestBounded(t *testing.T) {
	l := New(Config{Free: 3, Hold: 8, Delay: time.Second, Quiet: time.Minute})
	for i := range 2 * most {
		l.Failed(0, Port{ib.GUID(i + 1), 1}, Port{})
	}
	if n := len(l.list); n != most {
		t.Fatalf("%d links are remembered, want %d", n, most)
	}
	later := mad.Time(17 * time.Minute)
	if k, _ := l.Failed(later, Port{9999, 1}, Port{}); k.Failures != 1 || len(l.list) != 1 {
		t.Errorf("after a long quiet time: %+v, %d remembered", k, len(l.list))
	}
}
