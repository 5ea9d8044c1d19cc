package logs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// entry decodes what the journal gets.
func entry(b []byte) (map[string]string, error) {
	m := map[string]string{}
	for len(b) > 0 {
		head, rest, ok := bytes.Cut(b, []byte("\n"))
		if !ok {
			return nil, errors.New("no end of line")
		}
		key, value, one := strings.Cut(string(head), "=")
		if !one {
			if len(rest) < 8 {
				return nil, errors.New("no length")
			}
			n := binary.LittleEndian.Uint64(rest)
			if uint64(len(rest)) < 8+n+1 || rest[8+n] != '\n' {
				return nil, errors.New("the length is wrong")
			}
			value, rest = string(rest[8:8+n]), rest[8+n+1:]
		}
		if key == "" || len(key) > 64 || strings.Trim(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" || key[0] == '_' {
			return nil, fmt.Errorf("the journal drops field %q", key)
		}
		m[key] = value
		b = rest
	}
	return m, nil
}

// journal is a socket in the place of the journal's.
func journal(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func read(t *testing.T, c *net.UnixConn) map[string]string {
	t.Helper()
	b := make([]byte, 1<<16)
	n, err := c.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	m, err := entry(b[:n])
	if err != nil {
		t.Fatalf("%v: %q", err, b[:n])
	}
	return m
}

// TestJournal: an entry has a field for each attribute, also after the journal was started anew, and with a journal
// that is gone the line is in the other log. If it is stuck that has none: it may be the same journal's.
func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	c := journal(t, path)
	var text bytes.Buffer
	level := new(slog.LevelVar)
	h, err := Journal(path, level, slog.NewTextHandler(&text, nil))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(h)
	log.Debug("nothing")
	log.With("node", "spine 3").WithGroup("g").Warn("spine-3: left the subnet", "port", 17, slog.Group("peer", "lid", 9), "err", errors.New("two\nlines"))
	want := map[string]string{
		"MESSAGE":  `spine-3: left the subnet node="spine 3" g.port=17 g.peer.lid=9 g.err="two\nlines"`,
		"PRIORITY": "4", "SYSLOG_IDENTIFIER": "heddle",
		"HEDDLE_NODE": "spine 3", "HEDDLE_G_PORT": "17", "HEDDLE_G_PEER_LID": "9", "HEDDLE_G_ERR": "two\nlines",
	}
	if got := read(t, c); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	level.Set(slog.LevelDebug)
	for l, p := range map[slog.Level]string{slog.LevelDebug: "7", slog.LevelInfo: "6", slog.LevelError: "3"} {
		log.Log(t.Context(), l, "x", "cause", uint64(4711), "kind", "node_gone")
		if got := read(t, c); got["PRIORITY"] != p || got["HEDDLE_CAUSE"] != "4711" || got["HEDDLE_KIND"] != "node_gone" {
			t.Errorf("%v: %v", l, got)
		}
	}
	c.Close()
	os.Remove(path)
	log.Error("gone", "kind", "x")
	if s := text.String(); !strings.Contains(s, "level=ERROR msg=gone kind=x journal=") {
		t.Errorf("without a journal: %q", s)
	}
	c = journal(t, path)
	text.Reset()
	log.Info("again")
	if got := read(t, c); got["MESSAGE"] != "again" || text.Len() > 0 {
		t.Errorf("a new journal has %v, the other log %q", got, text.String())
	}
	for range 100 { // much more than its buffer takes
		log.Info(strings.Repeat("x", 10_000))
	}
	if text.Len() > 0 {
		t.Errorf("with a journal that does not read the other log has %.200q", text.String())
	}
	if got := read(t, c); len(got["MESSAGE"]) != 10_000 {
		t.Errorf("the journal has %.200q", got["MESSAGE"])
	}
	if _, err := Journal(path+"x", level, h); err == nil {
		t.Error("no socket, and no error")
	}
}

// TestJournalStuck: a journal that is stuck costs one wait in a second, whoever logs; lines that it did not
// take are counted and told before the next one.
func TestJournalStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rest bytes.Buffer
		var mu sync.Mutex
		var got []string
		waits, stuck, gone := 0, false, false
		j := &journaler{rest: slog.NewTextHandler(&rest, nil)}
		j.try = func(b []byte) error {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case gone:
				return os.NewSyscallError("sendto", syscall.ENOENT)
			case stuck:
				return os.NewSyscallError("sendto", syscall.EAGAIN)
			}
			m, err := entry(b)
			if err != nil {
				t.Error(err)
			}
			got = append(got, m["MESSAGE"])
			return nil
		}
		j.wait = func(_ []byte, until time.Time) error {
			mu.Lock()
			waits++
			mu.Unlock()
			<-time.After(time.Until(until))
			return &net.OpError{Op: "write", Err: os.ErrDeadlineExceeded}
		}
		log := slog.New(&handler{level: slog.LevelInfo, write: j.write})
		check := func(what string, n int, want ...string) {
			t.Helper()
			if fmt.Sprint(got) != fmt.Sprint(want) || waits != n || rest.Len() > 0 {
				t.Errorf("%s: the journal has %q, want %q; %d waits, want %d; the other log %q", what, got, want, waits, n, rest.String())
			}
			got, waits = nil, 0
			rest.Reset()
		}
		timed := func(want time.Duration, f func()) {
			t.Helper()
			began := time.Now()
			if f(); time.Since(began) != want {
				t.Errorf("it took %v, want %v", time.Since(began), want)
			}
		}
		stuck = true
		timed(journalTime, func() {
			for range 50 {
				log.Info("lost")
			}
		})
		check("stuck", 1)
		<-time.After(journalPause)
		timed(journalTime, func() { // several wait together, not one after the other
			var all sync.WaitGroup
			for range 5 {
				all.Go(func() { log.Info("lost") })
			}
			all.Wait()
		})
		check("stuck, of several", 5)
		stuck = false
		timed(0, func() { log.Info("lost: the pause is not over") })
		check("in the pause", 0)
		<-time.After(journalPause)
		gone = true
		log.Info("here")
		if s := rest.String(); !strings.Contains(s, "msg=here journal=\"sendto: no such file") {
			t.Errorf("without a journal the other log has %q", s)
		}
		rest.Reset()
		gone = false
		timed(0, func() { log.Info("a"); log.Info("b") })
		check("again", 0, "56 lines were not sent: this journal did not take them in time kind=journal_dropped count=56", "a", "b")
		stuck = true // and takes the line in the last moment
		wait := j.wait
		j.wait = func(b []byte, until time.Time) error {
			err := wait(b, until)
			stuck = false
			return err
		}
		timed(journalTime, func() { log.Info("c") })
		check("late", 1, "c")
	})
}

// slow is a log whose lines of kind log_cut end when told.
type slow struct {
	slog.Handler
	began, end chan struct{}
}

func (h slow) Handle(ctx context.Context, r slog.Record) error {
	cut := false
	r.Attrs(func(a slog.Attr) bool { cut = cut || a.Value.String() == kindCut; return true })
	if cut {
		close(h.began)
		<-h.end
	}
	return h.Handler.Handle(ctx, r)
}

// TestLimitedSlow: while the log takes the line about others that were left out, nobody else waits.
func TestLimitedSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := slow{slog.NewTextHandler(io.Discard, nil), make(chan struct{}), make(chan struct{})}
		log := slog.New(Limited(h))
		for range Most + 1 {
			log.Info("x")
		}
		<-h.began
		done := make(chan struct{})
		go func() { log.Info("y"); close(done) }()
		synctest.Wait()
		select {
		case <-done:
		default:
			t.Error("another line waits")
		}
		close(h.end)
	})
}

func TestInJournal(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	own := st.Sys().(*syscall.Stat_t)
	for value, want := range map[string]bool{
		fmt.Sprintf("%d:%d", own.Dev, own.Ino): true, fmt.Sprintf("%d:%d", own.Dev, own.Ino+1): false, "": false, "1": false, "x:y": false,
	} {
		if got := InJournal(func(string) string { return value }, f); got != want {
			t.Errorf("%q: %v", value, got)
		}
	}
}

// locked is what a log wrote.
type locked struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// take returns what was written since the last call.
func (l *locked) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

// TestLimited: of one kind ten lines are logged in a minute, and then how many more there were. Events, other kinds
// and a log that shows everything are not bounded.
func TestLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text locked
		level := new(slog.LevelVar)
		log := slog.New(Limited(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: level})))
		lines := func(want int, parts ...string) {
			t.Helper()
			s := text.take()
			if strings.Count(s, "\n") != want {
				t.Errorf("%d lines, want %d\n%s", strings.Count(s, "\n"), want, s)
			}
			for _, p := range parts {
				if !strings.Contains(s, p) {
					t.Errorf("no %q in\n%s", p, s)
				}
			}
		}
		for i := range 25 {
			log.With("a", 1).Warn(fmt.Sprint("line ", i), "kind", "x")
			log.Warn("same", "i", i)
			log.Warn(fmt.Sprint("other ", i))
			log.Info("event", "event", i, "kind", "x")
			log.Info("cut", "kind", kindCut)
		}
		lines(10+10+25+25+25, "line 9", "same", "other 24")
		<-time.After(Span)
		synctest.Wait()
		lines(2, "kind=log_cut of=x count=15", "kind=log_cut of=same count=15")
		log.Warn("same")
		lines(1)
		level.Set(slog.LevelDebug)
		for range 25 {
			log.Warn("same")
		}
		lines(25)
		level.Set(slog.LevelInfo)
		for i := range 5 * mostKinds { // memory is bounded
			log.Warn(fmt.Sprint("kind ", i))
		}
		if n := len(log.Handler().(*limited).s.limit.kinds); n > mostKinds {
			t.Errorf("%d kinds are kept", n)
		}
	})
}

// FuzzEntry: whatever a line has, the journal gets a sound entry with it.
func FuzzEntry(f *testing.F) {
	f.Add("text", "key", "value")
	f.Add("two\nlines", "Ä=\n", "a\nb=c\n")
	f.Fuzz(func(t *testing.T, text, key, value string) {
		var l *line
		h := &handler{level: slog.LevelInfo, write: func(x *line) error { l = x; return nil }}
		slog.New(h).Info(text, key, value)
		m, err := entry(appendEntry(nil, l))
		if err != nil || !strings.HasPrefix(m["MESSAGE"], text) || key != "" && m[journalKey(key)] != value {
			t.Fatalf("%q: %v", m, err)
		}
		msg := (&Syslog{host: "h", pid: "1"}).appendMessage(nil, l)
		if _, err := messages(bytes.NewReader(msg)); !errors.Is(err, io.EOF) {
			t.Fatalf("%q: %v", msg, err)
		}
	})
}
