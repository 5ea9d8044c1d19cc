package api

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"heddle/access"
	"heddle/api/listen"
)

// Auditor keeps the audit log.
type Auditor interface {
	// Audit adds an entry, which gets its number and time. It returns when the entry is durable, or
	// cannot be; a manager whose disk fails goes on.
	Audit(e access.Entry)
	// Audited returns entries, oldest first: those with a number greater than after that are not
	// before a time, at most limit.
	Audited(after uint64, since time.Time, limit int) ([]access.Entry, error)
}

// audited serves a request, and writes it to the audit log if it is to change something or reads keys.
// The answer to a change is sent when its entry is durable.
func (g *guard) audited(w http.ResponseWriter, r *http.Request, c *access.Caller, row *Route) {
	if g.o.Audit == nil || row.Report || !writes(r.Method) && !row.Keys {
		g.next.ServeHTTP(w, r)
		return
	}
	n := &note{}
	r = r.WithContext(context.WithValue(r.Context(), noteKey{}, n))
	if !writes(r.Method) {
		s := &watched{ResponseWriter: w, status: http.StatusOK}
		defer func() { g.record(r, c, s.status, "", nil, "") }()
		g.next.ServeHTTP(s, r)
		return
	}
	var request bytes.Buffer
	r.Body = tee{r.Body, &request}
	h := &held{head: w.Header(), status: http.StatusInternalServerError}
	returned := false
	end := func() {
		why, lines, asked := "", n.all(), ""
		if h.status >= http.StatusBadRequest {
			why = detail(h.body.Bytes())
		}
		if len(lines) == 0 {
			asked = access.RedactBody(request.Bytes())
		}
		g.record(r, c, h.status, why, lines, asked)
	}
	defer func() {
		if !returned { // the handler panics
			end()
		}
	}()
	g.next.ServeHTTP(h, r)
	returned = true
	h.WriteHeader(http.StatusOK) // unless it did
	end()
	h.send(w)
}

// detail is the readable part of an answer that refuses something.
func detail(answer []byte) string {
	var p struct{ Detail string }
	if json.Unmarshal(answer, &p) == nil && p.Detail != "" {
		return p.Detail
	}
	return strings.TrimSpace(string(answer[:min(len(answer), maxDetail)]))
}

// maxDetail bounds a reason in the audit log, in bytes.
const maxDetail = 512

// record adds an entry to the audit log.
func (g *guard) record(r *http.Request, c *access.Caller, status int, why string, lines []string, request string) {
	if g.o.Audit == nil {
		return
	}
	g.o.Audit.Audit(access.Entry{
		Who: c.Name, Role: c.Role.String(), From: from(r), Method: r.Method, Path: access.RedactText(r.URL.RequestURI()),
		Status: status, Error: access.RedactText(why), Change: access.Bounded(lines), Request: request,
	})
}

// from is where a request comes from.
func from(r *http.Request) string {
	if p, ok := listen.PeerOf(r.Context()); ok {
		return "pid " + strconv.Itoa(p.PID)
	}
	return r.RemoteAddr
}

// mostNoted bounds what of a body is kept for the audit log, in bytes.
const mostNoted = 64 << 10

// tee keeps the beginning of a body for the audit log.
type tee struct {
	io.ReadCloser
	to *bytes.Buffer
}

func (t tee) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.to.Write(p[:min(n, max(mostNoted-t.to.Len(), 0))])
	return n, err
}

// note is what a handler says of a change, for the audit log.
type note struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

type noteKey struct{}

// dryRun is what the audit log has of a request that only asked what it would change.
const dryRun = "dry run: nothing changed"

// changed notes lines about a change that a request made.
func changed(ctx context.Context, lines ...string) {
	n, ok := ctx.Value(noteKey{}).(*note)
	if !ok {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, lines...)
}

// auditing reports whether changed is of use.
func auditing(ctx context.Context) bool { return ctx.Value(noteKey{}) != nil }

func (n *note) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lines
}

// held is an answer that waits until its entry of the audit log is durable.
type held struct {
	head   http.Header
	status int
	wrote  bool
	body   bytes.Buffer
}

func (h *held) Header() http.Header { return h.head }

func (h *held) WriteHeader(code int) {
	if !h.wrote && code >= http.StatusOK {
		h.status, h.wrote = code, true
	}
}

func (h *held) Write(p []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	return h.body.Write(p)
}

func (h *held) send(w http.ResponseWriter) {
	w.WriteHeader(h.status)
	_, _ = w.Write(h.body.Bytes()) // an error means that the client is gone
}

// watched remembers the status of an answer.
type watched struct {
	http.ResponseWriter
	status int
}

func (s *watched) WriteHeader(code int) {
	s.status = code
	s.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.ResponseController reach the connection.
func (s *watched) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Audit is the body of /v1/audit.
type Audit struct {
	Entries []access.Entry `json:"entries" doc:"oldest first"`
	Next    uint64         `json:"next,omitempty" doc:"the after of the next page; 0 on the last"`
}

type auditInput struct {
	After uint64    `query:"after" doc:"only entries with a greater number"`
	Since time.Time `query:"since" doc:"only entries that are not before this time (RFC 3339)"`
	Limit int       `query:"limit" minimum:"1" maximum:"10000" default:"1000" doc:"so many at most"`
}

// auditLog adds /v1/audit.
func auditLog(a huma.API, log Auditor) {
	if log == nil {
		return
	}
	huma.Get(a, "/v1/audit", func(_ context.Context, in *auditInput) (*body[Audit], error) {
		list, err := log.Audited(in.After, in.Since, in.Limit)
		if err != nil {
			return nil, huma.Error500InternalServerError(err.Error())
		}
		out := Audit{Entries: nonNil(list)}
		if len(list) == in.Limit {
			out.Next = list[len(list)-1].Seq
		}
		return reply(out), nil
	})
}
