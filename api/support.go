package api

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"strings"
	"sync"
	"time"

	"heddle/access"
	"heddle/internal/version"
)

// Bounds of a support bundle.
const (
	supportSince   = "24h"
	supportSeconds = 5
	mostSeconds    = 30
	// traceBytes bounds the execution trace before compression.
	traceBytes = 16 << 20
	// mostRecords is how many events and entries of the audit log are in it.
	mostRecords = "10000"
)

// supportParts are the documents of a support bundle: what the API says, as a file. What a process does
// not have is named in errors.txt.
var supportParts = []struct{ file, path string }{
	{"status.json", "/v1/status"},
	{"ready.txt", "/readyz"},
	{"settings.json", "/v1/settings"},
	{"ha.json", "/v1/ha"},
	{"sweeps.json", "/v1/sweeps"},
	{"repairs.json", "/v1/repairs"},
	{"events.json", "/v1/events?before=18446744073709551615&limit=" + mostRecords + "&since="},
	{"audit.json", "/v1/audit?limit=" + mostRecords + "&since="},
	{"findings.json", "/v1/findings"},
	{"hotspots.json", "/v1/hotspots"},
	{"congestion.json", "/v1/congestion"},
	{"signals.json", "/v1/signals"},
	{"webhooks.json", "/v1/webhooks"},
	{"partitions.json", "/v1/partitions"},
	{"vms.json", "/v1/vms?limit=" + mostRecords},
	{"ports.json", "/v1/ports/actions"},
	{"cabling.json", "/v1/cabling"},
	{"topology.ibnetdiscover", "/v1/topology/ibnetdiscover"},
	{"metrics.txt", "/metrics"},
}

// tracing permits one execution trace at a time: the runtime has no more.
var tracing sync.Mutex

// support serves a support bundle of the process whose handlers mux has. It holds no keys, but all that
// is known of the subnet and of who changed it.
func support(mux http.Handler, o *Options) http.HandlerFunc {
	now := orNow(o.Now)
	return func(w http.ResponseWriter, r *http.Request) {
		at, seconds := now(), supportSeconds
		q := r.URL.Query()
		since, err := ParseTime(cmp.Or(q.Get("since"), supportSince), at)
		if s := q.Get("seconds"); s != "" && err == nil {
			if seconds, err = strconv.Atoi(s); err != nil || seconds < 0 || seconds > mostSeconds {
				err = fmt.Errorf("seconds %q: want those of the execution trace, 0 to %d", s, mostSeconds)
			}
		}
		if err != nil {
			refuse(w, http.StatusUnprocessableEntity, err.Error())
			return
		}
		w.Header().Set("Content-Type", "application/gzip")
		w.Header().Set("Content-Disposition", `attachment; filename="heddle-support.tar.gz"`)
		w.Header().Set("Cache-Control", "no-store")
		z := gzip.NewWriter(w)
		b := &bundle{tar: tar.NewWriter(z), at: at}
		b.fill(r.Context(), mux, o, since, time.Duration(seconds)*time.Second)
		if errors.Join(b.err, b.tar.Close(), z.Close()) != nil {
			panic(http.ErrAbortHandler) // the client sees that it is not whole
		}
	}
}

// bundle is a support bundle that is being written.
type bundle struct {
	tar     *tar.Writer
	at      time.Time
	missing bytes.Buffer
	err     error // of writing
}

func (b *bundle) fill(ctx context.Context, mux http.Handler, o *Options, since time.Time, length time.Duration) {
	// First, so that they show the process and not the making of the rest.
	b.traces(ctx, o.Flight, length)
	if o.Log != nil {
		b.add("log.txt", []byte(strings.Join(access.RedactLines(o.Log()), "")))
	}
	b.add("version.txt", []byte(version.Version+"\n"))
	for _, p := range supportParts {
		path := p.path
		if path[len(path)-1] == '=' {
			path += url.QueryEscape(since.UTC().Format(time.RFC3339))
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
		if err != nil {
			b.failed(p.file, err)
			continue
		}
		answer := &page{head: http.Header{}, status: http.StatusOK}
		mux.ServeHTTP(answer, r)
		if answer.status != http.StatusOK {
			b.failed(p.file, fmt.Errorf("%s: %d %s", p.path, answer.status, detail(answer.Bytes())))
			continue
		}
		b.add(p.file, answer.Bytes())
	}
	// Level 1 has no arguments of functions, which may be keys.
	b.made("goroutines.txt", func(w io.Writer) error { return pprof.Lookup("goroutine").WriteTo(w, 1) })
	b.made("heap.pprof", func(w io.Writer) error { return pprof.Lookup("heap").WriteTo(w, 0) })
	if b.missing.Len() > 0 {
		b.add("errors.txt", b.missing.Bytes())
	}
}

// traces adds two execution traces: what the recorder of the settings has of the past, and what happens
// from now on.
func (b *bundle) traces(ctx context.Context, always *trace.FlightRecorder, length time.Duration) {
	if !tracing.TryLock() {
		b.failed("trace.out", errors.New("another one is being made"))
		return
	}
	defer tracing.Unlock()
	if always != nil && always.Enabled() {
		b.made("trace-past.out", func(w io.Writer) error {
			_, err := always.WriteTo(w)
			return err
		})
	}
	b.made("trace.out", func(w io.Writer) error { return record(ctx, w, always, length) })
}

// record writes an execution trace of the process over a time, of which the runtime keeps the end if
// it is too long. There is one recorder at a time: the other one begins anew after it.
func record(ctx context.Context, w io.Writer, always *trace.FlightRecorder, length time.Duration) (err error) {
	if length == 0 {
		return errors.New("not asked for")
	}
	if always != nil && always.Enabled() {
		always.Stop()
		defer func() { err = errors.Join(err, always.Start()) }()
	}
	f := trace.NewFlightRecorder(trace.FlightRecorderConfig{MinAge: length, MaxBytes: traceBytes})
	if err := f.Start(); err != nil {
		return err
	}
	defer f.Stop()
	t := time.NewTimer(length)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	_, err = f.WriteTo(w)
	return err
}

// made adds a file with what fn writes.
func (b *bundle) made(name string, fn func(w io.Writer) error) {
	var out bytes.Buffer
	if err := fn(&out); err != nil {
		b.failed(name, err)
		return
	}
	b.add(name, out.Bytes())
}

func (b *bundle) failed(name string, err error) { fmt.Fprintf(&b.missing, "%s: %v\n", name, err) }

func (b *bundle) add(name string, content []byte) {
	h := &tar.Header{Name: "heddle-support/" + name, Mode: 0o600, Size: int64(len(content)), ModTime: b.at.Truncate(time.Second)} // the format rounds up, and tar warns of the future
	if err := b.tar.WriteHeader(h); err != nil {
		b.err = errors.Join(b.err, err)
		return
	}
	_, err := b.tar.Write(content)
	b.err = errors.Join(b.err, err)
}

// page is an answer in memory.
type page struct {
	bytes.Buffer
	head   http.Header
	status int
}

func (p *page) Header() http.Header  { return p.head }
func (p *page) WriteHeader(code int) { p.status = code }
