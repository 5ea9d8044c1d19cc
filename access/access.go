// Package access controls the use of the API: roles, named tokens and their registry, roles of
// client certificates, limits, and the entries of the audit log.
//
// The package is pure: time and randomness are passed in. Package api calls it for each request,
// and the process passes the store. All types but Follower may be used from many goroutines.
package access

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"heddle/ib"
)

// Role is the set of rights of a caller. docs/access.md has the table of paths and roles.
type Role uint8

// The roles. Viewer, Operator and Admin are ordered: each includes the rights of the one before.
// Tenant is separate: it sees and changes only the objects in its Scope.
const (
	None     Role = iota // nothing
	Viewer               // reads all but keys
	Operator             // sweeps, routes, virtual machines, congestion control, handover
	Admin                // everything
	Tenant               // its own virtual machines and partitions
	roleEnd
)

var roleNames = [roleEnd]string{None: "none", Viewer: "viewer", Operator: "operator", Admin: "admin", Tenant: "tenant"}

// String implements fmt.Stringer.
func (r Role) String() string {
	if r < roleEnd {
		return roleNames[r]
	}
	return fmt.Sprintf("role(%d)", uint8(r))
}

// ParseRole reads the name of a role other than none.
func ParseRole(s string) (Role, error) {
	if i := slices.Index(roleNames[:], s); i > 0 {
		return Role(i), nil
	}
	return None, fmt.Errorf("%w: role %q: want viewer, operator, tenant or admin", ErrInvalid, s)
}

// May reports whether r includes least, one of the ordered roles. A tenant includes none of them.
func (r Role) May(least Role) bool { return r != Tenant && r >= least && least > None }

// Scope names the objects of a tenant.
type Scope struct {
	// Prefix begins the names of its virtual machines and of its partitions; not empty.
	Prefix string `json:"prefix,omitempty"`
	// PKeys are P_Keys that it may use in addition, for partitions without such a name.
	PKeys []ib.PKey `json:"pkeys,omitempty"`
}

// Owns reports whether a name belongs to the tenant.
func (s *Scope) Owns(name string) bool { return s.Prefix != "" && strings.HasPrefix(name, s.Prefix) }

// Limits of a Scope.
const (
	maxPrefix = 64
	maxPKeys  = 1024
)

// check refuses a scope that does not go with a role.
func (s *Scope) check(r Role) error {
	switch {
	case r != Tenant && (s.Prefix != "" || len(s.PKeys) > 0):
		return fmt.Errorf("%w: only a tenant has a prefix and P_Keys", ErrInvalid)
	case r != Tenant:
		return nil
	case s.Prefix == "" || len(s.Prefix) > maxPrefix || strings.ContainsFunc(s.Prefix, func(c rune) bool { return c <= ' ' || c > '~' }):
		return fmt.Errorf("%w: a tenant needs a prefix of 1 to %d characters without spaces", ErrInvalid, maxPrefix)
	case len(s.PKeys) > maxPKeys:
		return fmt.Errorf("%w: %d P_Keys are more than %d", ErrInvalid, len(s.PKeys), maxPKeys)
	}
	for _, k := range s.PKeys {
		if k == 0 || k >= ib.PKeyDefaultLimited {
			return fmt.Errorf("%w: P_Key %v: want 0x0001 to 0x7ffe", ErrInvalid, k)
		}
	}
	return nil
}

// Caller is the client of a request.
type Caller struct {
	// Name is for display and the audit log: token:NAME, cert:SUBJECT, socket:uid=N, write-token,
	// read-token, ufm:USER or anonymous.
	Name string
	Role Role
	// Scope is that of a tenant.
	Scope Scope
	// Known: it showed a credential, or came over the owner's socket. An unknown caller sees no Q_Key.
	Known bool
	// Token is the name of the named token that it showed, or empty.
	Token string
}

// Errors of this package.
var (
	// ErrInvalid: the request itself is wrong; the text says how.
	ErrInvalid = errors.New("invalid")
	// ErrNotFound: there is no such token.
	ErrNotFound = errors.New("no such token")
	// ErrExists: the name is taken.
	ErrExists = errors.New("a token of this name exists; revoke it, or choose another name")
	// ErrUnknownToken: the token is not, or no longer, one that the manager knows.
	ErrUnknownToken = errors.New("the token is unknown, or it was revoked")
	// ErrExpired: the token's time is over.
	ErrExpired = errors.New("the token has expired")
)
