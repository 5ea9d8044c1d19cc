package logs

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// JournalSocket is where systemd's journal takes datagrams.
const JournalSocket = "/run/systemd/journal/socket"

// journalTime is how long a line may wait for a journal that is busy.
const journalTime = 100 * time.Millisecond

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
// PRIORITY, SYSLOG_IDENTIFIER, and HEDDLE_KEY for each attribute. A line that the journal does not
// take in a tenth of a second goes to rest.
func Journal(path string, level slog.Leveler, rest slog.Handler) (slog.Handler, error) {
	// A socket that is not connected finds the journal also after that has made its own anew.
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("the journal: %w", err)
	}
	to := &net.UnixAddr{Name: path, Net: "unixgram"}
	if _, err := os.Stat(path); err != nil {
		c.Close()
		return nil, fmt.Errorf("the journal: %w", err)
	}
	return &handler{level: level, write: func(l *line) error {
		err := c.SetWriteDeadline(time.Now().Add(journalTime))
		if err == nil {
			_, _, err = c.WriteMsgUnix(appendEntry(nil, l), nil, to)
		}
		if err == nil {
			return nil
		}
		r := slog.NewRecord(l.time, l.level, l.text, 0)
		for _, f := range l.fields {
			r.AddAttrs(slog.String(f.key, f.value))
		}
		r.AddAttrs(slog.String("journal", err.Error()))
		return rest.Handle(context.Background(), r)
	}}, nil
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
