package logs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"heddle/internal/need"
	"heddle/internal/proc"
)

// grammar is RFC 5424's, section 6, of a message with one element of structured data.
var grammar = regexp.MustCompile(`^<(\d{1,3})>1 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z ([!-~]{1,255}) heddle (\d+) ([!-~]{1,32}) ` +
	`\[heddle@32473((?: [!#-<>-\\^-~]{1,32}="(?:[^"\\\]]|\\["\\\]])*")*)\] \x{feff}([^\x00-\x1f]*)$`)

// messages reads messages with their lengths to the end, with the error that ends them.
func messages(r io.Reader) (list [][]string, err error) {
	in := bufio.NewReader(r)
	for {
		head, err := in.ReadString(' ')
		if err != nil {
			return list, err
		}
		n, err := strconv.Atoi(strings.TrimSuffix(head, " "))
		if err != nil || n > 8096 {
			return list, fmt.Errorf("length %q: %v", head, err)
		}
		b := make([]byte, n)
		if _, err := io.ReadFull(in, b); err != nil {
			return list, err
		}
		m := grammar.FindStringSubmatch(string(b))
		if m == nil || !utf8.Valid(b) {
			return list, fmt.Errorf("not by the grammar: %q", b)
		}
		list = append(list, m[1:])
	}
}

// servers are what a Syslog connects to, one after the other.
type servers struct {
	mu    sync.Mutex
	dials []time.Time
	up    bool
	reads bool
	got   []string // texts; of all
	data  []string
	last  net.Conn
	t     *testing.T
}

func (s *servers) dial(context.Context) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dials = append(s.dials, time.Now())
	if !s.up {
		return nil, errors.New("refused")
	}
	own, far := net.Pipe()
	s.last = far
	if s.reads {
		go func() {
			list, err := messages(far)
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
				s.t.Error(err)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, m := range list {
				s.got = append(s.got, m[len(m)-1])
				s.data = append(s.data, strings.Join(m[:len(m)-1], "|"))
			}
		}()
	}
	return own, nil
}

func (s *servers) set(up, reads bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.up, s.reads = up, reads
}

// TestSyslogAway: a server that is away or does not read costs nobody time, and bounded memory; tries
// have pauses, what waited is sent in order, and what was dropped is counted and told.
func TestSyslogAway(t *testing.T) {
	for _, up := range []bool{false, true} { // without a server, or with one that does not read
		synctest.Test(t, func(t *testing.T) {
			srv := &servers{t: t, up: up}
			var states []string
			s := newSyslog(srv.dial, "sm 1", 17, func(st SyslogStatus) { states = append(states, st.Error) })
			log := slog.New(s.Handler(slog.LevelInfo))
			began := time.Now()
			for i := range queueLines + 1000 {
				log.Info(fmt.Sprint("line ", i), "kind", "node_gone", "node", `a "b" [c] \d`)
			}
			if !time.Now().Equal(began) {
				t.Errorf("lines took %v", time.Since(began))
			}
			<-time.After(10 * time.Minute)
			synctest.Wait()
			st := s.Status()
			if st.Dropped < 1000 || st.Waiting+int(st.Dropped) != queueLines+1000 || st.Sent != 0 || st.Error == "" || s.bytes > queueBytes {
				t.Errorf("without a server: %+v, %d bytes", st, s.bytes)
			}
			if n := len(srv.dials); n < 10 || n > 20 || !up && (srv.dials[1].Sub(srv.dials[0]) != firstPause || srv.dials[n-1].Sub(srv.dials[n-2]) != mostPause) {
				t.Errorf("%d tries in ten minutes: %v", n, srv.dials)
			}
			srv.set(true, true)
			<-time.After(mostPause + writeTime)
			log.Warn("then")
			synctest.Wait()
			s.Close()
			synctest.Wait()
			if len(srv.got) != st.Waiting+2 || srv.got[0] != fmt.Sprintf("%d lines were not sent: this server did not take them in time", st.Dropped) ||
				srv.got[1] != "line 0" || srv.got[st.Waiting] != fmt.Sprint("line ", st.Waiting-1) || srv.got[st.Waiting+1] != "then" {
				t.Fatalf("the server has %d lines: %.200q", len(srv.got), srv.got)
			}
			if want := `30|sm_1|17|node_gone| kind="node_gone" node="a \"b\" [c\] \\d"`; srv.data[1] != want {
				t.Errorf("got  %s\nwant %s", srv.data[1], want)
			}
			if len(states) != 2 || states[0] == "" || states[1] != "" {
				t.Errorf("states %q", states)
			}
		})
	}
}

// TestSyslogReturns: lines after the end of a connection go to the next one.
func TestSyslogReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &servers{t: t, up: true, reads: true}
		s := newSyslog(srv.dial, "", 17, func(SyslogStatus) {})
		log := slog.New(s.Handler(slog.LevelInfo))
		for i := range 10 {
			log.Info(strconv.Itoa(i))
			synctest.Wait()
			srv.last.Close()
			synctest.Wait()
			<-time.After(firstPause)
		}
		s.Close()
		synctest.Wait()
		if got := strings.Join(srv.got, ""); got != "0123456789" || len(srv.dials) < 10 {
			t.Errorf("the servers have %q in %d connections", got, len(srv.dials))
		}
	})
}

// TestSyslogEnds: a server that does not read holds up the end of the program for a second.
func TestSyslogEnds(t *testing.T) {
	for _, up := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newSyslog((&servers{t: t, up: up}).dial, "", 17, func(SyslogStatus) {})
			slog.New(s.Handler(slog.LevelInfo)).Info("x")
			synctest.Wait()
			began := time.Now()
			s.Close()
			if d := time.Since(began); d > closeTime {
				t.Errorf("it took %v", d)
			}
		})
	}
}

// TestSyslogGone: the kernel ends connections to a server that acknowledges nothing for 20 s.
func TestSyslogGone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, err := OpenSyslog("tcp://"+l.Addr().String(), func(SyslogStatus) {})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := s.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var ms int
	var got error
	err = raw.Control(func(fd uintptr) { ms, got = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) })
	if err != nil || got != nil || ms != 20_000 {
		t.Errorf("the time is %d ms: %v, %v", ms, err, got)
	}
}

func TestParseServer(t *testing.T) {
	for text, want := range map[string]string{
		"tcp://log.example.org:1514": "tcp log.example.org:1514", "tcp://[::1]": "tcp [::1]:601", "tls://h": "tls h:6514",
		"udp://h:514": "", "h:514": "", "tcp://": "", "tcp://h:0": "", "tcp://h:99999": "", "tcp://h/x": "", "tcp://u@h": "",
	} {
		network, addr, err := ParseServer(text)
		if got := strings.TrimSpace(network + " " + addr); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

// TestRsyslog: Debian's rsyslogd reads what we send.
func TestRsyslog(t *testing.T) {
	rsyslogd := need.Tool(t, "rsyslogd")
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	out := filepath.Join(dir, "out")
	conf := fmt.Sprintf(`module(load="imtcp")
input(type="imtcp" port="%d" address="127.0.0.1")
module(load="mmpstrucdata")
action(type="mmpstrucdata")
template(name="t" type="string" string="%%pri%%|%%protocol-version%%|%%app-name%%|%%msgid%%|%%$!rfc5424-sd!heddle@32473!node%%|%%$!rfc5424-sd!heddle@32473!cause%%|%%msg%%\n")
action(type="omfile" file="%s" template="t" asyncWriting="off" flushOnTXEnd="on")
`, port, out)
	if err := os.WriteFile(filepath.Join(dir, "conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := proc.Start(proc.Command(dir, nil, rsyslogd, "-n", "-f", "conf", "-i", filepath.Join(dir, "pid")))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	s, err := OpenSyslog(fmt.Sprintf("tcp://127.0.0.1:%d", port), func(SyslogStatus) {})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	log := slog.New(s.Handler(slog.LevelInfo))
	log.Warn("spine-3: left the subnet: 36 links", "kind", "node_gone", "node", `spine "3" [x]`, "cause", 4711)
	log.Error("Zürich\ntwo")
	want := `28|1|heddle|node_gone|spine "3" [x]|4711|` + "\ufeffspine-3: left the subnet: 36 links\n" + "27|1|heddle|-|||\ufeffZürich two\n"
	var got string
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(need.Patience); got != want && time.Now().Before(end); <-tick.C {
		b, _ := os.ReadFile(out) // it is not there yet, or will be whole
		got = string(b)
	}
	if got != want {
		t.Errorf("got  %q\nwant %q\n%s", got, want, p.Output())
	}
}
