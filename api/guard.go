package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// maxBody bounds every request body but a partition configuration and a batch of
// operations.
const maxBody = 1 << 16

// guard checks permissions before any handler runs: the Host header (a foreign
// page must not reach the API by a name that resolves to this address), the
// Origin, the tokens, and the size of the body.
func guard(next http.Handler, o Options) http.Handler {
	cross := http.NewCrossOriginProtection()
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !hostAllowed(r.Host, o.Hosts) && !o.AllowWrite {
			refuse(w, http.StatusForbidden, "this server does not answer to the name "+r.Host+"; use 127.0.0.1, localhost or a name given with --api-host")
			return
		}
		owner := o.AllowWrite || o.Token != "" && tokenIs(r, o.Token)
		reader := owner || o.ReadToken != "" && tokenIs(r, o.ReadToken)
		if o.ReadToken != "" && !reader {
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, "this address requires a bearer token")
			return
		}
		if writes(r.Method) && !owner {
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, "changes require the bearer token from the daemon's token file, or its Unix socket")
			return
		}
		if crowded(r) {
			w.Header().Set("Connection", "close")
			if !reader && !isProbe(r) {
				refuse(w, http.StatusServiceUnavailable, "too many connections are open; only health probes and requests with a token are served")
				return
			}
		}
		limit := int64(maxBody)
		switch r.URL.Path {
		case "/v1/partitions":
			limit = maxPartitions
		case "/v1/vms:batch":
			limit = maxBatchLen
		}
		r.Body = http.MaxBytesReader(w, r.Body, limit)
		head := w.Header()
		head.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Referrer-Policy", "no-referrer")
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), rightsKey{}, rights{reads: reader, writes: owner})))
	})
	return cross.Handler(h)
}

// rights are the permissions of a request: it came with a token, or over the owner's
// socket. On loopback reading needs none, except for secrets.
type rights struct{ reads, writes bool }

type rightsKey struct{}

func rightsOf(ctx context.Context) rights {
	r, _ := ctx.Value(rightsKey{}).(rights)
	return r
}

func writes(method string) bool {
	return method != http.MethodGet && method != http.MethodHead && method != http.MethodOptions
}

func refuse(w http.ResponseWriter, code int, why string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	w.Write([]byte(why + "\n"))
}

// tokenIs compares in constant time regardless of lengths.
func tokenIs(r *http.Request, want string) bool {
	got, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	a, b := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	return ok && subtle.ConstantTimeCompare(a[:], b[:]) == 1
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
