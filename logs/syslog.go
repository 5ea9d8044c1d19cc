package logs

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Bounds of a Syslog.
const (
	queueLines = 4096
	queueBytes = 1 << 20
	longest    = 4 << 10 // bytes of a message before its text: with that it has less than the 8,096 that rsyslog takes
	longText   = 2 << 10
	longField  = 512
	batchLines = 64 // written at a time

	firstPause = time.Second
	mostPause  = time.Minute
	dialTime   = 10 * time.Second
	writeTime  = 10 * time.Second
	closeTime  = time.Second
	goneTime   = 20 * time.Second // without an acknowledgement of what was sent
)

// Syslog sends lines to a server by RFC 5424 over TCP, each with its length before it (RFC 6587,
// section 3.4.1), or over TLS (RFC 5425). Nobody waits for the server: lines wait in a bounded queue, and
// further ones are counted and dropped. There is no answer in this protocol: lines on their way when
// the server ends may be lost.
type Syslog struct {
	dial   func(ctx context.Context) (net.Conn, error)
	host   string
	pid    string
	state  func(SyslogStatus)
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	queue   []string // guarded by mu
	bytes   int      // of queue; guarded by mu
	st      SyslogStatus
	more    chan struct{} // has a token when there is something to send
	closing bool          // guarded by mu
}

// SyslogStatus counts lines.
type SyslogStatus struct {
	Sent, Dropped uint64
	Waiting       int
	Error         string // why lines wait; empty: they do not
}

// ParseServer returns the parts of tcp://HOST:PORT or tls://HOST:PORT. Without a port it is that of the
// protocol: 601 or 6514.
func ParseServer(text string) (network, addr string, err error) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Path != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", "", errors.New("want tcp://HOST:PORT or tls://HOST:PORT")
	}
	port := u.Port()
	switch {
	case u.Scheme == "tcp" && port == "":
		port = "601"
	case u.Scheme == "tls" && port == "":
		port = "6514"
	case u.Scheme != "tcp" && u.Scheme != "tls":
		return "", "", errors.New("want tcp://HOST:PORT or tls://HOST:PORT")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", "", errors.New("want a port from 1 to 65535")
	}
	return u.Scheme, net.JoinHostPort(u.Hostname(), port), nil
}

// OpenSyslog begins to send to a server (ParseServer). state is called when lines begin to wait,
// with the reason, and when they are sent again. The certificate of a server by TLS is verified with
// the authorities of this machine. Close ends it.
func OpenSyslog(server string, state func(SyslogStatus)) (*Syslog, error) {
	network, addr, err := ParseServer(server)
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname() // without one it is -
	return newSyslog(dialer(network, addr, nil), host, os.Getpid(), state), nil
}

// dialer connects to a server by tcp or tls. roots verify its certificate; nil: the authorities of this
// machine.
func dialer(network, addr string, roots *x509.CertPool) func(context.Context) (net.Conn, error) {
	tcp := &net.Dialer{Control: limitUnacked}
	if network == "tls" {
		secure := &tls.Dialer{NetDialer: tcp, Config: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}}
		return func(ctx context.Context) (net.Conn, error) { return secure.DialContext(ctx, "tcp", addr) }
	}
	return func(ctx context.Context) (net.Conn, error) { return tcp.DialContext(ctx, "tcp", addr) }
}

// limitUnacked has the kernel end a connection whose server does not acknowledge for goneTime what was
// sent (tcp(7), TCP_USER_TIMEOUT). Otherwise lines to a machine that has vanished go into the buffer of
// the socket for up to a quarter of an hour, and are lost.
func limitUnacked(_, _ string, c syscall.RawConn) error {
	var set error
	err := c.Control(func(fd uintptr) {
		set = os.NewSyscallError("setsockopt", unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(goneTime.Milliseconds())))
	})
	return cmp.Or(err, set)
}

func newSyslog(dial func(context.Context) (net.Conn, error), host string, pid int, state func(SyslogStatus)) *Syslog {
	s := &Syslog{
		dial: dial, host: word(host, 255), pid: strconv.Itoa(pid), state: state,
		more: make(chan struct{}, 1), done: make(chan struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	go s.run()
	return s
}

// Handler returns a handler that sends lines at or above a level.
func (s *Syslog) Handler(level slog.Leveler) slog.Handler {
	return &handler{level: level, write: func(l *line) error {
		s.add(string(s.appendMessage(nil, l)))
		return nil
	}}
}

// Status is how it stands.
func (s *Syslog) Status() SyslogStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.st
	st.Waiting = len(s.queue)
	return st
}

// Close sends what waits, if that takes no longer than a second, and ends. s may be nil.
func (s *Syslog) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.wake()
	limit := time.AfterFunc(closeTime, s.cancel)
	<-s.done
	limit.Stop()
	s.cancel()
}

func (s *Syslog) wake() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

func (s *Syslog) add(text string) {
	s.mu.Lock()
	if len(s.queue) >= queueLines || s.bytes+len(text) > queueBytes {
		s.st.Dropped++
		s.mu.Unlock()
		return
	}
	s.queue = append(s.queue, text)
	s.bytes += len(text)
	s.mu.Unlock()
	s.wake()
}

// run sends until the end.
func (s *Syslog) run() {
	defer close(s.done)
	var c net.Conn
	defer func() {
		if c != nil {
			c.Close()
		}
	}()
	pause, told := firstPause, uint64(0)
	for {
		s.mu.Lock()
		batch := strings.Join(s.queue[:min(len(s.queue), batchLines)], "")
		n, lost, closing := min(len(s.queue), batchLines), s.st.Dropped-told, s.closing
		s.mu.Unlock()
		if n == 0 {
			if closing {
				return
			}
			select {
			case <-s.more:
			case <-s.ctx.Done():
				return
			}
			continue
		}
		if lost > 0 {
			batch = string(s.appendMessage(nil, dropped("syslog", "server", lost))) + batch
		}
		used := c != nil
		var err error
		if c, err = s.send(c, batch); err == nil {
			pause = firstPause
			told += lost
			s.sent(n)
			continue
		}
		if used {
			continue // the server may have been started anew
		}
		s.failed(err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-s.ctx.Done():
			timer.Stop()
			return
		}
		pause = min(2*pause, mostPause)
	}
}

// send writes lines to a connection, which it opens if there is none. It returns nil instead of a
// connection that is of no use.
func (s *Syslog) send(c net.Conn, batch string) (net.Conn, error) {
	if c == nil {
		ctx, cancel := context.WithTimeout(s.ctx, dialTime)
		defer cancel()
		var err error
		if c, err = s.dial(ctx); err != nil {
			return nil, err
		}
		go func(c net.Conn) { // servers say nothing: this ends with the connection, and shows its end
			_, _ = io.Copy(io.Discard, c)
			c.Close()
		}(c)
	}
	stop := context.AfterFunc(s.ctx, func() { c.Close() })
	defer stop()
	err := c.SetWriteDeadline(time.Now().Add(writeTime))
	if err == nil {
		_, err = io.WriteString(c, batch)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (s *Syslog) sent(n int) {
	s.mu.Lock()
	for _, text := range s.queue[:n] {
		s.bytes -= len(text)
	}
	if s.queue = s.queue[n:]; len(s.queue) == 0 {
		s.queue = nil // with its memory
	}
	s.st.Sent += uint64(n)
	again := s.st.Error != ""
	s.st.Error = ""
	st := s.st
	s.mu.Unlock()
	if again {
		s.state(st)
	}
}

func (s *Syslog) failed(err error) {
	s.mu.Lock()
	first := s.st.Error == ""
	s.st.Error = err.Error()
	st := s.st
	s.mu.Unlock()
	if first {
		s.state(st)
	}
}

// dropped says how many lines the journal or a syslog server did not get.
func dropped(log, reader string, n uint64) *line {
	return &line{
		time: time.Now(), level: slog.LevelWarn, text: fmt.Sprintf("%d lines were not sent: this %s did not take them in time", n, reader),
		fields: []field{{"kind", log + "_dropped"}, {"count", strconv.FormatUint(n, 10)}},
	}
}

const (
	facility = 3 // system daemons
	// dataID names our fields. The number is the one for documentation (RFC 5612): Heddle has none.
	dataID = "heddle@32473"
)

// appendMessage appends a line with its length before it.
func (s *Syslog) appendMessage(b []byte, l *line) []byte {
	var m strings.Builder
	fmt.Fprintf(&m, "<%d>1 %s %s %s %s %s [%s", facility*8+l.priority(), l.time.UTC().Format("2006-01-02T15:04:05.000000Z"), s.host, identifier, s.pid,
		word(l.value("kind"), 32), dataID)
	for _, f := range l.fields {
		if m.Len() < longest {
			m.WriteString(" " + paramName(f.key) + `="` + escape.Replace(cut(printable(f.value), longField)) + `"`)
		}
	}
	m.WriteString("] ")
	m.WriteString("\ufeff" + cut(printable(l.text), longText)) // the mark says that it is UTF-8
	b = strconv.AppendInt(b, int64(m.Len()), 10)
	b = append(b, ' ')
	return append(b, m.String()...)
}

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `]`, `\]`)

// printable is text in UTF-8 in one line: servers write each message as one.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
}

// word is printable ASCII without spaces, or - for nothing (NILVALUE).
func word(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r <= ' ' || r >= 0x7f {
			return '_'
		}
		return r
	}, s)
	if s == "" {
		return "-"
	}
	return s[:min(len(s), most)]
}

// paramName is the name of a field: a word without = ] and ".
func paramName(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '=' || r == ']' || r == '"' {
			return '_'
		}
		return r
	}, word(s, 32))
}
