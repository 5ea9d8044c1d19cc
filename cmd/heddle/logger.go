package main

import (
	"io"
	"log/slog"
	"os"

	"heddle/logs"
	"heddle/settings"
)

// logger returns a logger that writes to w as configured.
func (f smFlags) logger(w io.Writer) *slog.Logger {
	return slog.New(logs.Limited(localLog(w, f.Log.Form, slog.Level(f.Log.Level))))
}

// logging is the log of a manager, and where it goes besides standard error.
type logging struct {
	log    *slog.Logger
	level  *slog.LevelVar // of log
	recent *logs.Recent   // the last lines
	syslog *logs.Syslog   // nil: there is none
}

// openLog is the logger of a manager, which keeps the last lines and may send to a syslog server too. The
// last lines have the level of the log and not a lower one: lines of level debug are many, some of them
// one a packet, and would soon be the only ones.
func (f smFlags) openLog(w io.Writer) (logging, error) {
	x := logging{level: new(slog.LevelVar), recent: new(logs.Recent)}
	x.level.Set(slog.Level(f.Log.Level))
	x.log = slog.New(logs.Limited(slog.NewMultiHandler(localLog(w, f.Log.Form, x.level), x.recent.Handler(x.level))))
	if f.Log.Syslog == "" {
		return x, nil
	}
	own := x.log
	s, err := logs.OpenSyslog(f.Log.Syslog, func(st logs.SyslogStatus) {
		if st.Error != "" {
			own.Warn("the syslog server cannot be reached; lines for it wait", "kind", "syslog_away", "server", f.Log.Syslog, "err", st.Error)
			return
		}
		own.Info("the syslog server takes lines again", "kind", "syslog_back", "server", f.Log.Syslog, "dropped", st.Dropped)
	})
	if err != nil {
		return x, usagef("%s %q: %w", f.From("syslog"), f.Log.Syslog, err)
	}
	x.syslog = s
	x.log = slog.New(slog.NewMultiHandler(own.Handler(), logs.Limited(s.Handler(x.level))))
	return x, nil
}

// localLog writes to the journal if w is its stream, otherwise to w.
func localLog(w io.Writer, form settings.LogForm, level slog.Leveler) slog.Handler {
	o := &slog.HandlerOptions{Level: level}
	if form == settings.LogJSON {
		return slog.NewJSONHandler(w, o)
	}
	text := slog.NewTextHandler(w, o)
	out := w
	if t, ok := w.(*terminal); ok {
		out = t.w
	}
	if f, ok := out.(*os.File); ok && form == settings.LogAuto && logs.InJournal(os.Getenv, f) {
		h, err := logs.Journal(logs.JournalSocket, level, text)
		if err == nil {
			return h
		}
		slog.New(text).Warn("log lines have no fields: the journal's socket cannot be used", "err", err)
	}
	return text
}
