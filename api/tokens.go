package api

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"heddle/access"
	"heddle/ib"
)

// TokenKeeper changes the named tokens. Errors are those of access.Registry, or of the store, which
// cannot be written on standby.
type TokenKeeper interface {
	// CreateToken returns the text of a new token, which nobody can read again.
	CreateToken(n access.NewToken) (text string, t access.Token, err error)
	// RevokeToken removes a token.
	RevokeToken(name string) (access.Token, error)
}

// Token is a named token.
type Token struct {
	Name    string    `json:"name"`
	Role    string    `json:"role" doc:"viewer, operator, tenant or admin"`
	Prefix  string    `json:"prefix,omitempty" doc:"tenant: begins the names of its virtual machines and partitions"`
	PKeys   []string  `json:"pkeys,omitempty" doc:"tenant: P_Keys that it may use in addition"`
	Created time.Time `json:"created"`
	By      string    `json:"created_by,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
	Expired bool      `json:"expired,omitempty"`
	Used    time.Time `json:"last_used,omitzero" doc:"as far as this manager knows: it is stored every 10 minutes"`
}

// CreatedToken is the answer to the creation of a token.
type CreatedToken struct {
	Token
	Text string `json:"token" doc:"for the header Authorization: Bearer TOKEN; it is not stored, and not shown again"`
}

// Identity is the body of /v1/whoami.
type Identity struct {
	Name   string `json:"name" doc:"as in the audit log"`
	Role   string `json:"role"`
	Prefix string `json:"prefix,omitempty"`
}

func showToken(t *access.Token, now time.Time) Token {
	out := Token{
		Name: t.Name, Role: t.Role.String(), Prefix: t.Scope.Prefix, Created: t.Created, By: t.By, Expires: t.Expires,
		Expired: t.Expired(now), Used: t.Used,
	}
	for _, k := range t.Scope.PKeys {
		out.PKeys = append(out.PKeys, k.String())
	}
	return out
}

type tokenInput struct {
	Body struct {
		Name   string   `json:"name" minLength:"1" maxLength:"64" doc:"letters, digits, - and _"`
		Role   string   `json:"role" enum:"viewer,operator,tenant,admin"`
		Prefix string   `json:"prefix,omitempty" maxLength:"64" doc:"tenant: begins the names of its virtual machines and partitions; end it with a character that no other prefix goes on with, such as -"`
		PKeys  []string `json:"pkeys,omitempty" maxItems:"1024" doc:"tenant: P_Keys that it may use in addition"`
		Valid  float64  `json:"valid_seconds,omitempty" minimum:"0" doc:"for how long it is valid, 36,500 days at most; 0: until it is revoked"`
	}
}

// MaxValid is the longest time for which a token may be valid.
const MaxValid = 36_500 * 24 * time.Hour

type tokenNamed struct {
	Name string `path:"name" minLength:"1" maxLength:"64"`
}

// identity adds /v1/whoami.
func identity(a huma.API) {
	huma.Get(a, "/v1/whoami", func(ctx context.Context, _ *struct{}) (*body[Identity], error) {
		c := callerOf(ctx)
		return reply(Identity{Name: c.Name, Role: c.Role.String(), Prefix: c.Scope.Prefix}), nil
	})
}

// tokens adds what reads tokens.
func tokens(a huma.API, r *access.Registry) {
	if r == nil {
		return
	}
	huma.Get(a, "/v1/tokens", func(context.Context, *struct{}) (*body[[]Token], error) {
		list := []Token{}
		now := time.Now()
		for _, t := range r.List() {
			list = append(list, showToken(&t, now))
		}
		return reply(list), nil
	})
}

// changeTokens adds what changes tokens.
func changeTokens(a huma.API, k TokenKeeper) {
	if k == nil {
		return
	}
	errs := []int{http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusServiceUnavailable}
	huma.Register(a, huma.Operation{
		OperationID: "create-token", Method: http.MethodPost, Path: "/v1/tokens", Summary: "Create a named token",
		DefaultStatus: http.StatusCreated, MaxBodyBytes: maxBody, Errors: errs,
	}, func(ctx context.Context, in *tokenInput) (*body[CreatedToken], error) {
		n, err := in.token(callerOf(ctx).Name)
		if err != nil {
			return nil, tokenError(err)
		}
		text, t, err := k.CreateToken(n)
		if err != nil {
			return nil, tokenError(err)
		}
		out := showToken(&t, t.Created)
		changed(ctx, access.Diff(nil, out)...)
		return reply(CreatedToken{out, text}), nil
	})
	huma.Register(a, huma.Operation{
		OperationID: "revoke-token", Method: http.MethodDelete, Path: "/v1/tokens/{name}", Summary: "Revoke a named token",
		DefaultStatus: http.StatusNoContent, MaxBodyBytes: maxBody, Errors: errs,
	}, func(ctx context.Context, in *tokenNamed) (*struct{}, error) {
		t, err := k.RevokeToken(in.Name)
		if err != nil {
			return nil, tokenError(err)
		}
		changed(ctx, access.Diff(showToken(&t, t.Created), nil)...)
		return nil, nil
	})
}

// token is what the body asks for.
func (in *tokenInput) token(by string) (n access.NewToken, err error) {
	b := &in.Body
	n = access.NewToken{Name: b.Name, Scope: access.Scope{Prefix: b.Prefix}, By: by}
	if n.Role, err = access.ParseRole(b.Role); err != nil {
		return n, err
	}
	for _, s := range b.PKeys {
		k, err := ib.ParsePKey(strings.TrimSpace(s))
		if err != nil {
			return n, fmt.Errorf("%w: P_Key %q", access.ErrInvalid, s)
		}
		n.Scope.PKeys = append(n.Scope.PKeys, k.Base())
	}
	if b.Valid > MaxValid.Seconds() {
		return n, fmt.Errorf("%w: valid_seconds: a token is valid for %d days at most; leave it out for one that is valid until it is revoked", access.ErrInvalid, MaxValid/(24*time.Hour))
	}
	if b.Valid > 0 {
		n.Expires = time.Now().Add(time.Duration(b.Valid * float64(time.Second)))
	}
	return n, nil
}

func tokenError(err error) error {
	code := http.StatusServiceUnavailable // the store
	switch {
	case errors.Is(err, access.ErrInvalid):
		code = http.StatusBadRequest
	case errors.Is(err, access.ErrNotFound):
		code = http.StatusNotFound
	case errors.Is(err, access.ErrExists):
		code = http.StatusConflict
	}
	return huma.NewError(code, err.Error())
}

// NewToken writes a fresh random token to path, readable by its owner alone,
// and returns it.
func NewToken(path string) (string, error) {
	token := rand.Text()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("api token: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".token-*") // created with mode 0600
	if err != nil {
		return "", fmt.Errorf("api token: %w", err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(token + "\n")
	if err == nil {
		err = tmp.Sync()
	}
	if err := errors.Join(err, tmp.Close()); err != nil {
		return "", fmt.Errorf("api token: %w", err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return "", fmt.Errorf("api token: %w", err)
	}
	return token, nil
}
