package daemon

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"heddle/api"
	"heddle/ib"
	"heddle/incident"
	"heddle/logs"
	"heddle/perf/findings"
)

// TestEventsOfOneCause: the links of a switch that is gone are in its event; what follows has its cause; held
// events come after a second, or when they are flushed.
func TestEventsOfOneCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, nil))
		r := openEvents(t, t.TempDir())
		add := func(kind string, node ib.GUID, port int) {
			r.add(&entry{
				e:    api.Event{Time: time.Now(), Level: "info", Kind: kind, Message: kind, Attrs: map[string]string{}},
				fact: incident.Fact{Node: node, NodeDesc: fmt.Sprint("node ", node), Port: port}, log: log,
			})
		}
		add("sweep_start", 0, 0)
		for p := range 5 {
			add("link_down", 7, p+1)
		}
		synctest.Wait()
		if list := follow(t, r, 0); len(list) != 1 {
			t.Errorf("before the sweep knows all: %+v", list)
		}
		add("routed", 0, 0)
		add("link_up", 9, 1)
		synctest.Wait()
		list := follow(t, r, 0)
		if len(list) != 3 || len(list[1].Links) != 5 || list[1].Cause != 1 || list[1].Message != "5 links are down" || list[1].Attrs["node"] != "node 0x0000000000000007" || list[2].Cause != 1 {
			t.Errorf("%+v", list)
		}
		<-time.After(holdTimeOver)
		synctest.Wait()
		if list = follow(t, r, 3); len(list) != 1 || list[0].Kind != "link_up" {
			t.Errorf("after a second: %+v", list)
		}
		add("link_up", 9, 1)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if list = follow(t, r, 4); len(list) != 1 || list[0].Cause != 4 {
			t.Errorf("at the end: %+v", list)
		}
		for _, want := range []string{"msg=\"5 links are down\" kind=link_down links=5 node=", "event=2 cause=1\n"} {
			if !strings.Contains(text.String(), want) {
				t.Errorf("the log lacks %q:\n%s", want, &text)
			}
		}
		if strings.Count(text.String(), "\n") != 5 {
			t.Errorf("the log:\n%s", &text)
		}
	})
}

// holdTimeOver is longer than facts of a sweep are held.
const holdTimeOver = 1100 * time.Millisecond

// logText is a log that one goroutine writes and another one reads.
type logText struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestLogLimit: ten lines of a kind are logged in a minute, and how many more there were; a log that shows
// everything has all of them.
func TestLogLimit(t *testing.T) {
	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelDebug} {
		synctest.Test(t, func(t *testing.T) {
			var text logText
			log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: level}))
			r := openEvents(t, "")
			add := func(kind string, n int) {
				for range n {
					r.add(&entry{e: note("warn", kind, "x", nil), log: log})
				}
				synctest.Wait()
			}
			add("trap", 25)
			add("other", 10)
			<-time.After(30 * time.Second)
			add("trap", 5)
			lines := func() int { return strings.Count(text.String(), "\n") }
			if want := map[slog.Level]int{slog.LevelInfo: 20, slog.LevelDebug: 40}[level]; lines() != want {
				t.Errorf("%v: %d lines, want %d", level, lines(), want)
			}
			<-time.After(31 * time.Second)
			synctest.Wait()
			cut := strings.Contains(text.String(), `msg="20 further events of kind trap within a minute were not logged; 'heddle ctl events --kind trap' has them" kind=log_cut of=trap count=20`)
			if cut != (level == slog.LevelInfo) || strings.Contains(text.String(), "of=other") {
				t.Errorf("%v:\n%s", level, text.String())
			}
			was := lines()
			add("trap", 1)
			if lines() != was+1 {
				t.Errorf("%v: in the next minute %d lines", level, lines()-was)
			}
			if n := len(follow(t, r, 0)); n != 41 {
				t.Errorf("%d events", n)
			}
		})
	}
}

// TestAuditsCut: requests do not push other events out.
func TestAuditsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openEvents(t, "")
		for range 1000 {
			r.Add(note("info", kindAudit, "x", nil))
		}
		synctest.Wait()
		if n := len(follow(t, r, 0)); n != auditMost {
			t.Errorf("%d events", n)
		}
		<-time.After(logs.Span)
		synctest.Wait()
		list := follow(t, r, auditMost)
		if len(list) != 1 || list[0].Kind != "audit_cut" || list[0].Attrs["count"] != "700" {
			t.Errorf("%+v", list)
		}
	})
}

// TestFindingsNameEvents: a finding says with which event it opened and which is its cause; findings of
// another daemon with the same events, which have the same numbers, have others; and what is known is
// bounded.
func TestFindingsNameEvents(t *testing.T) {
	r := openEvents(t, t.TempDir())
	daemons := [2]*Daemon{}
	for i := range daemons {
		d := &Daemon{events: r, log: slog.New(slog.DiscardHandler), clock: clock{started: time.Now()}}
		d.finder.run = r.runs.Add(1)
		daemons[i] = d
	}
	tell := func(d *Daemon, kind string, id uint64, node ib.GUID) {
		d.finder.told = noticeLimit{}
		d.tellFinding(kind, &findings.Finding{ID: id, Ends: []findings.End{{GUID: node, Desc: "node", Port: 3}}})
	}
	named := func(d *Daemon, id uint64) api.Finding {
		r.Flush()
		list := []api.Finding{{ID: id}}
		d.nameEvents(list)
		return list[0]
	}
	r.add(&entry{e: api.Event{Time: time.Now(), Kind: "port_rule"}, fact: incident.Fact{Node: 7, Port: 3}}) // event 1
	tell(daemons[0], kindOpened, 1, 7)
	tell(daemons[0], kindOpened, 2, 9)
	tell(daemons[1], kindOpened, 1, 11)
	tell(daemons[0], kindClosed, 1, 7)
	for _, x := range []struct {
		d           *Daemon
		id          uint64
		event, want uint64
	}{{daemons[0], 1, 2, 1}, {daemons[0], 2, 3, 3}, {daemons[1], 1, 4, 4}, {daemons[1], 2, 0, 0}} {
		if f := named(x.d, x.id); f.Event != x.event || f.Cause != x.want {
			t.Errorf("run %d, finding %d: event %d with cause %d, want %d and %d", x.d.finder.run, x.id, f.Event, f.Cause, x.event, x.want)
		}
	}
	if e := follow(t, r, 4); len(e) != 1 || e[0].Kind != kindClosed || e[0].Cause != 1 {
		t.Errorf("the end: %+v", e)
	}
	for i := range uint64(incident.KeptOpenings) {
		tell(daemons[1], kindOpened, 2+i, ib.GUID(100+i))
	}
	if f := named(daemons[0], 1); f.Event != 0 {
		t.Errorf("the oldest is kept: %+v", f)
	}
	if f := named(daemons[1], 2); f.Event == 0 {
		t.Error("the newest are not kept")
	}
}
