package main

import (
	"io"
	"log/slog"
	"os"

	"heddle/logs"
	"heddle/settings"
)

// logger returns a logger that writes to w as configured, and its level, which may change.
func (f smFlags) logger(w io.Writer) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	level.Set(slog.Level(f.Log.Level))
	return slog.New(logs.Limited(localLog(w, f.Log.Form, level))), level
}

// loggers is logger of a manager, which may send to a syslog server too; nil: there is none.
func (f smFlags) loggers(w io.Writer) (log *slog.Logger, level *slog.LevelVar, server *logs.Syslog, err error) {
	log, level = f.logger(w)
	if f.Log.Syslog == "" {
		return log, level, nil, nil
	}
	own := log
	s, err := logs.OpenSyslog(f.Log.Syslog, func(st logs.SyslogStatus) {
		if st.Error != "" {
			own.Warn("the syslog server cannot be reached; lines for it wait", "kind", "syslog_away", "server", f.Log.Syslog, "err", st.Error)
			return
		}
		own.Info("the syslog server takes lines again", "kind", "syslog_back", "server", f.Log.Syslog, "dropped", st.Dropped)
	})
	if err != nil {
		return nil, nil, nil, usagef("%s %q: %w", f.From("syslog"), f.Log.Syslog, err)
	}
	return slog.New(slog.NewMultiHandler(log.Handler(), logs.Limited(s.Handler(level)))), level, s, nil
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
