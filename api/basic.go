package api

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"time"

	"heddle/access"
)

// BasicOptions are the settings of calls with one user and a password of their own.
type BasicOptions struct {
	User, Password string // required
	Kind           string // of the calls, before the user's name in the audit log
	Body           int64  // the most bytes of a request
	// Audit, Limits and Now are those of Options.
	Audit  Auditor
	Limits *Limits
	Now    func() time.Time
}

// NewBasic protects calls by HTTP Basic, so they are to be served over TLS or on loopback
// (ListenUFM). The user has the role operator in the audit log and may make all of them.
func NewBasic(next http.Handler, o BasicOptions) http.Handler {
	o.Limits, o.Now = cmp.Or(o.Limits, NewLimits(0)), orNow(o.Now)
	g := &guard{o: Options{Audit: o.Audit}, next: next}
	who := access.Caller{Name: o.Kind + ":" + o.User, Role: access.Operator, Known: true}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := o.Now()
		if wait := o.Limits.failures.Wait(client(r), now); wait > 0 {
			tooMany(w, wait, errLimited.Error())
			return
		}
		if !credentials(r, o.User, o.Password) {
			if r.Header.Get("Authorization") != "" {
				o.Limits.failures.Add(client(r), now)
			}
			w.Header().Set("WWW-Authenticate", `Basic realm="heddle", charset="UTF-8"`)
			refuse(w, http.StatusUnauthorized, "user or password is wrong")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, o.Body)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		g.audited(w, r, &who, &Route{})
	})
	return http.NewCrossOriginProtection().Handler(h)
}

// credentials compares in constant time regardless of lengths.
func credentials(r *http.Request, user, password string) bool {
	u, p, ok := r.BasicAuth()
	same := func(a, b string) int {
		x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
		return subtle.ConstantTimeCompare(x[:], y[:])
	}
	return ok && same(u, user)&same(p, password) == 1
}
