package logs

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// JournalSocket is where systemd's journal takes datagrams.
const JournalSocket = "/run/systemd/journal/socket"

// journalTime is how long a line may wait for a journal that is busy.
const journalTime = 100 * time.Millisecond

// journalPause is how long nothing is sent to a journal that did not take a line in time.
const journalPause = time.Second

// InJournal reports whether a file is the stream that the journal gave a service for its output:
// $JOURNAL_STREAM has its device and inode (systemd.exec(5)).
func InJournal(getenv func(string) string, f *os.File) bool {
	dev, inode, ok := strings.Cut(getenv("JOURNAL_STREAM"), ":")
	var st unix.Stat_t
	if !ok || unix.Fstat(int(f.Fd()), &st) != nil {
		return false
	}
	return dev == strconv.FormatUint(st.Dev, 10) && inode == strconv.FormatUint(st.Ino, 10)
}

// Journal returns a handler that writes to the journal's socket at path by its native protocol: MESSAGE,
// PRIORITY, SYSLOG_IDENTIFIER, and HEDDLE_KEY for each attribute. A line waits a tenth of a second at
// most for a journal that is busy. One that is not taken in that time, and all further ones within a
// second, are dropped and counted; the number is an entry of kind journal_dropped before the next line
// that is taken. Lines that the journal cannot take for another reason go to rest.
func Journal(path string, level slog.Leveler, rest slog.Handler) (slog.Handler, error) {
	// A socket that is not connected finds the journal also after that has made its own anew.
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("the journal: %w", err)
	}
	raw, err := c.SyscallConn()
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("the journal: %w", err)
	}
	addr, to := &unix.SockaddrUnix{Name: path}, &net.UnixAddr{Name: path, Net: "unixgram"}
	j := &journaler{
		rest: rest,
		try: func(b []byte) error {
			var sent error
			err := raw.Control(func(fd uintptr) { // other than Write it takes no lock
				sent = os.NewSyscallError("sendto", unix.Sendto(int(fd), b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, addr))
			})
			return cmp.Or(err, sent)
		},
		wait: func(b []byte, until time.Time) error {
			if err := c.SetWriteDeadline(until); err != nil {
				return err
			}
			_, _, err := c.WriteMsgUnix(b, nil, to)
			return err
		},
	}
	return &handler{level: level, write: j.write}, nil
}

// journaler sends entries. No lock is held while a line waits.
type journaler struct {
	try  func(entry []byte) error                  // does not wait: EAGAIN
	wait func(entry []byte, until time.Time) error // os.ErrDeadlineExceeded
	rest slog.Handler

	mu       sync.Mutex
	writers  int       // under way; guarded by mu
	deadline time.Time // of all of them: the socket has one; guarded by mu
	pause    time.Time // until then nothing is sent; guarded by mu
	dropped  uint64    // and not told yet; guarded by mu
}

func (j *journaler) write(l *line) error {
	until, lost, ok := j.begin(time.Now())
	if !ok {
		return nil
	}
	var err error
	if lost > 0 {
		err = j.send(appendEntry(nil, dropped("journal", "journal", lost)), until)
	}
	if err == nil {
		lost = 0
		err = j.send(appendEntry(nil, l), until)
	}
	late := errors.Is(err, os.ErrDeadlineExceeded)
	j.end(time.Now(), lost, late)
	if err == nil || late { // a journal that is stuck does not read standard error either
		return nil
	}
	r := slog.NewRecord(l.time, l.level, l.text, 0)
	for _, f := range l.fields {
		r.AddAttrs(slog.String(f.key, f.value))
	}
	r.AddAttrs(slog.String("journal", err.Error()))
	return j.rest.Handle(context.Background(), r)
}

// begin returns until when a line may wait and how many were dropped before it, which the caller is to
// tell; or it drops the line.
func (j *journaler) begin(now time.Time) (until time.Time, lost uint64, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if now.Before(j.pause) {
		j.dropped++
		return time.Time{}, 0, false
	}
	if j.writers == 0 {
		j.deadline = now.Add(journalTime)
	}
	j.writers++
	lost, j.dropped = j.dropped, 0
	return j.deadline, lost, true
}

// end is the other end of begin: so many drops were not told, and whether the line was too late.
func (j *journaler) end(now time.Time, lost uint64, late bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.writers--
	j.dropped += lost
	if late {
		j.dropped++
		j.pause = now.Add(journalPause)
	}
}

func (j *journaler) send(entry []byte, until time.Time) error {
	err := j.try(entry)
	if !errors.Is(err, unix.EAGAIN) {
		return err
	}
	// The kernel wakes us only for room that our own entries left: there may be some in the end.
	if err = j.wait(entry, until); errors.Is(err, os.ErrDeadlineExceeded) && j.try(entry) == nil {
		return nil
	}
	return err
}

// appendEntry appends a line as the journal takes it.
func appendEntry(b []byte, l *line) []byte {
	b = appendField(b, "MESSAGE", l.String())
	b = appendField(b, "PRIORITY", strconv.Itoa(l.priority()))
	b = appendField(b, "SYSLOG_IDENTIFIER", identifier)
	for _, f := range l.fields {
		b = appendField(b, journalKey(f.key), f.value)
	}
	return b
}

// appendField appends NAME=value, or, if the value has several lines, its length and the value.
func appendField(b []byte, name, value string) []byte {
	b = append(b, name...)
	if strings.Contains(value, "\n") {
		b = append(b, '\n')
		b = binary.LittleEndian.AppendUint64(b, uint64(len(value)))
	} else {
		b = append(b, '=')
	}
	b = append(b, value...)
	return append(b, '\n')
}

// journalKey is the field of an attribute. Its name has capitals, digits and underscores, at most 64.
func journalKey(key string) string {
	return cut("HEDDLE_"+strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, key), 64)
}
