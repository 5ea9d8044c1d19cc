package eventlog

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
)

// TestEventsOfOneCause: the links of a switch that is gone are in its event; what follows has its cause; held
// events come after a second, or when they are flushed.
func TestEventsOfOneCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, nil))
		r := openEvents(t, t.TempDir())
		add := func(kind string, node ib.GUID, port int) {
			r.Record(&Entry{
				Event: api.Event{Time: time.Now(), Level: "info", Kind: kind, Message: kind, Attrs: map[string]string{}},
				At:    incident.Fact{Node: node, NodeDesc: fmt.Sprint("node ", node), Port: port}, Log: log,
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
					r.Record(&Entry{Event: note("warn", kind, "x", nil), Log: log})
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
