package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzhttp"

	"heddle/access"
	"heddle/api/listen"
	"heddle/web"
)

// Bounds of request bodies, in bytes; Route.Body has others.
const (
	maxBody       = 1 << 16
	maxTenantBody = 1 << 20
)

// Limits bounds what clients may try and ask. The handlers of one process share it.
type Limits struct {
	failures access.Failures

	mu   sync.RWMutex // of what rate may be; its own lock guards the rest
	rate access.Rate
}

// Limits of clients.
const (
	failuresPerMinute = 20
	// burst is how many seconds of its rate a token may use at a time.
	burst = 10
)

// NewLimits returns the limits for tokens and client certificates that may make perSecond requests each
// in the long run; 0: any number.
func NewLimits(perSecond int) *Limits {
	l := &Limits{failures: access.Failures{Most: failuresPerMinute, Span: time.Minute}}
	l.SetRate(perSecond)
	return l
}

// SetRate changes how many requests a second each token and client certificate may make; 0: any number.
func (l *Limits) SetRate(perSecond int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rate.PerSecond, l.rate.Burst = float64(perSecond), float64(burst*perSecond)
}

// wait is how long a caller must wait; 0: it may go on.
func (l *Limits) wait(c *access.Caller, now time.Time) time.Duration {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.rate.PerSecond == 0 || c.Token == "" && !strings.HasPrefix(c.Name, "cert:") {
		return 0
	}
	return l.rate.Take(c.Name, now)
}

// guard checks permissions before any handler runs: the Host header (a foreign page must not reach the
// API by a name that resolves to this address), the Origin, who asks, the table of access, the number
// of requests, and the size of the body. It writes the audit log.
type guard struct {
	o     Options
	table *table
	next  http.Handler
	pack  func(http.Handler) http.HandlerFunc // compresses answers
}

func newGuard(next http.Handler, o Options) http.Handler {
	o.Limits, o.Now = cmp.Or(o.Limits, NewLimits(0)), orNow(o.Now)
	pack, err := gzhttp.NewWrapper(gzhttp.EnableZstd(false))
	if err != nil {
		panic(err) // there is nothing in the options that could be wrong
	}
	return http.NewCrossOriginProtection().Handler(&guard{o, newTable(), next, pack})
}

// orNow is the clock of a server that was given none.
func orNow(now func() time.Time) func() time.Time {
	if now == nil {
		return time.Now
	}
	return now
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := g.o.Now()
	c, err := g.caller(r, now)
	owner := strings.HasPrefix(c.Name, "socket:")
	if !hostAllowed(r.Host, g.o.Hosts) && !owner {
		refuse(w, http.StatusForbidden, "this server does not answer to the name "+r.Host+"; use 127.0.0.1, localhost or a name given with --api-host")
		return
	}
	// Refused requests count too: each is an entry of the audit log, which others would be pushed out of.
	if wait := g.o.Limits.wait(&c, now); wait > 0 {
		tooMany(w, wait, "this token makes too many requests")
		return
	}
	row := g.table.find(r)
	full := listen.Crowded(r)
	if full {
		w.Header().Set("Connection", "close")
	}
	if code, why := g.denied(r, row, &c, err); code != 0 {
		g.deny(w, r, &c, row, now, code, why)
		return
	}
	if full && !c.Known && !isProbe(r) {
		refuse(w, http.StatusServiceUnavailable, "too many connections are open; only health probes and requests with a token are served")
		return
	}
	limit := int64(maxBody)
	if row.Body > 0 {
		limit = row.Body
	}
	if c.Role == access.Tenant {
		limit = min(limit, maxTenantBody)
		if r.ContentLength > limit { // handlers know the limit of others alone
			refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("a tenant sends %d bytes at most", limit))
			return
		}
	}
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	head := w.Header()
	head.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	if row.packed(r.Method) {
		g.pack(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.serve(w, r, &c, row) })).ServeHTTP(w, r)
		return
	}
	g.serve(w, r, &c, row)
}

// serve answers a request that is permitted.
func (g *guard) serve(w http.ResponseWriter, r *http.Request, c *access.Caller, row *Route) {
	ctx := context.WithValue(r.Context(), callerKey{}, *c)
	if c.Token != "" || strings.HasPrefix(c.Name, "cert:") {
		var stop context.CancelFunc
		ctx, stop = g.whileValid(ctx, r, c, row)
		defer stop()
	}
	g.audited(w, r.WithContext(ctx), c, row)
}

// denied says why a request is refused, by its status and a text; 0: it is not.
func (g *guard) denied(r *http.Request, row *Route, c *access.Caller, wrong error) (code int, why string) {
	switch {
	case row != nil && row.Public && web.Has(r.URL.Path):
		return 0, "" // whatever was shown: browsers send credentials with all requests or with none
	case errors.Is(wrong, errLimited):
		return http.StatusTooManyRequests, wrong.Error()
	case wrong != nil: // also where everybody reads: a client that signs in must know that it did not
		return http.StatusUnauthorized, wrong.Error()
	case c.Role == access.None:
		return http.StatusUnauthorized, "this address requires a bearer token"
	case row == nil && !c.Known && writes(r.Method):
		return http.StatusUnauthorized, "changes require a token"
	case row == nil && g.table.known(r):
		return http.StatusMethodNotAllowed, "this path does not take " + r.Method
	case row == nil:
		return http.StatusNotFound, "there is no such path"
	case row.allows(c.Role):
		return 0, ""
	case !c.Known && writes(r.Method):
		return http.StatusUnauthorized, "changes require the bearer token from the daemon's token file, a named token (heddle ctl token create), or the daemon's Unix socket as its user or root"
	case !c.Known:
		return http.StatusUnauthorized, "this holds keys: it needs the daemon's token, a named token of an administrator, or the daemon's Unix socket"
	case c.Role == access.Tenant:
		return http.StatusForbidden, c.Name + " is a tenant: it may not call " + r.Method + " " + r.URL.Path
	}
	return http.StatusForbidden, fmt.Sprintf("%s has the role %v; %s %s needs %v", c.Name, c.Role, r.Method, r.URL.Path, row.Least)
}

// deny refuses a request. A wrong credential counts as a failure of its address, and a change that a
// known caller may not make, or keys that it may not read, are written to the audit log.
func (g *guard) deny(w http.ResponseWriter, r *http.Request, c *access.Caller, row *Route, now time.Time, code int, why string) {
	switch {
	case code == http.StatusTooManyRequests:
		tooMany(w, g.o.Limits.failures.Wait(client(r), now), why)
		return
	case code == http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
		if r.Header.Get("Authorization") != "" {
			g.o.Limits.failures.Add(client(r), now)
		}
	case code == http.StatusForbidden && c.Known && (writes(r.Method) || row.Keys): // 403 is about a row
		g.record(r, c, code, why, nil, "")
	}
	refuse(w, code, why)
}

// tooMany refuses a request that may be repeated later.
func tooMany(w http.ResponseWriter, wait time.Duration, why string) {
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(max(wait, time.Second).Seconds()))))
	refuse(w, http.StatusTooManyRequests, why)
}

// Errors of caller.
var (
	errWrongToken = errors.New("the token is not known to this manager: it is wrong, or of before a restart")
	errScheme     = errors.New("this server takes bearer tokens alone (Authorization: Bearer TOKEN)")
	errLimited    = errors.New("too many wrong credentials came from this address; wait a minute")
	errNoRole     = errors.New("the subject of this client certificate has no role: add it to the file of --api-clients")
)

// caller is who makes a request. With an error it showed a credential that is not accepted.
func (g *guard) caller(r *http.Request, now time.Time) (access.Caller, error) {
	if g.o.AllowWrite {
		if p, ok := listen.PeerOf(r.Context()); !ok {
			return access.Caller{Name: "socket:owner", Role: access.Admin, Known: true}, nil
		} else if p.UID == 0 || p.UID == os.Geteuid() {
			return access.Caller{Name: "socket:uid=" + strconv.Itoa(p.UID), Role: access.Admin, Known: true}, nil
		}
	}
	nobody := access.Caller{Name: "anonymous"}
	if g.o.ReadToken == "" && !g.o.Login {
		nobody.Role = access.Viewer
	}
	text, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case bearer:
		c, err := g.bearer(r, text, now)
		if err != nil {
			c = nobody
		}
		return c, err
	case r.Header.Get("Authorization") != "":
		return nobody, errScheme
	}
	if c, err := g.certified(r, now); err != nil || c.Known {
		if err != nil {
			c = nobody
		}
		return c, err
	}
	return nobody, nil
}

// bearer is the caller with a token. Random tokens cannot be guessed, so they are accepted from an
// address that failed too often; the token to read is chosen by people, and is not even compared.
func (g *guard) bearer(r *http.Request, text string, now time.Time) (access.Caller, error) {
	limited := g.o.Limits.failures.Wait(client(r), now) > 0
	var err error
	switch {
	case access.IsNamed(text) && g.o.Tokens != nil:
		var c access.Caller
		if c, err = g.o.Tokens.Authenticate(text, now); err == nil {
			return c, nil
		}
	case g.o.Token != "" && same(text, g.o.Token):
		return access.Caller{Name: "write-token", Role: access.Admin, Known: true}, nil
	case !limited && g.o.ReadToken != "" && same(text, g.o.ReadToken):
		return access.Caller{Name: "read-token", Role: access.Viewer, Known: true}, nil
	default:
		err = errWrongToken
	}
	if limited {
		err = errLimited
	}
	return access.Caller{}, err
}

// certified is the caller with a client certificate, which TLS has verified.
func (g *guard) certified(r *http.Request, now time.Time) (access.Caller, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || g.o.Clients == nil {
		return access.Caller{}, nil
	}
	cert := r.TLS.PeerCertificates[0]
	if now.After(cert.NotAfter) { // the connection is older than that
		return access.Caller{}, errNoRole
	}
	if c, ok := g.o.Clients().Of(cert.Subject.String()); ok {
		return c, nil
	}
	return access.Caller{}, errNoRole
}

// same compares in constant time regardless of lengths.
func same(got, want string) bool {
	a, b := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// whileValid ends a request when its token is revoked or expires, or its certificate has another role:
// event streams have no other end.
func (g *guard) whileValid(ctx context.Context, r *http.Request, c *access.Caller, row *Route) (context.Context, context.CancelFunc) {
	name := c.Token
	if writes(r.Method) || !strings.Contains(r.URL.Path, "/stream") && !strings.Contains(r.URL.Path, ":changes") {
		return ctx, func() {} // it ends by itself
	}
	text := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	ctx, cancel := context.WithCancel(ctx)
	if name == "" {
		go g.whileCertified(ctx, cancel, r, row)
		return ctx, cancel
	}
	go func() {
		defer cancel()
		for {
			changed := g.o.Tokens.Changed()
			now := g.o.Now()
			if !g.o.Tokens.Valid(text, now) {
				return
			}
			var end <-chan time.Time
			if at := g.o.Tokens.Expires(name); !at.IsZero() {
				t := time.NewTimer(at.Sub(now))
				defer t.Stop()
				end = t.C
			}
			select {
			case <-changed:
			case <-end:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, cancel
}

// certifyTime is how often it is looked whether the certificate of a stream still has its role: the file
// of roles tells nobody when it changes.
const certifyTime = time.Second

// whileCertified cancels a request when its certificate may not make it any more.
func (g *guard) whileCertified(ctx context.Context, cancel context.CancelFunc, r *http.Request, row *Route) {
	defer cancel()
	for tick := time.NewTicker(certifyTime); ; {
		select {
		case <-tick.C:
			if c, err := g.certified(r, g.o.Now()); err != nil || !row.allows(c.Role) {
				tick.Stop()
				return
			}
		case <-ctx.Done():
			tick.Stop()
			return
		}
	}
}

// client names the address of a client for the limit of failures. An IPv6 host has a whole /64.
func client(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	a, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		return host
	case a.Unmap().Is4():
		return a.Unmap().String()
	}
	p, _ := a.WithZone("").Prefix(64) // it is an IPv6 address
	return p.String()
}

type callerKey struct{}

// callerOf is who makes a request.
func callerOf(ctx context.Context) access.Caller {
	c, _ := ctx.Value(callerKey{}).(access.Caller)
	return c
}

func writes(method string) bool {
	return method != http.MethodGet && method != http.MethodHead && method != http.MethodOptions
}

func refuse(w http.ResponseWriter, code int, why string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	w.Write([]byte(why + "\n"))
}

// hostAllowed reports whether the Host header names loopback or one of the
// operator's names.
func hostAllowed(hostport string, names []string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if host == "localhost" || slices.Contains(names, host) {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}
