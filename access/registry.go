package access

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"heddle/store"
)

const (
	// maxTokens bounds the named tokens.
	maxTokens = 1000
	// useStep is how much later a use must be than the stored one to be stored again.
	useStep = 10 * time.Minute
)

// Registry has the named tokens of the store, to be asked for each request. The zero value has none.
type Registry struct {
	// change is held while tokens change: by Create, Revoke, SaveUse and Follower.Poll. A reader of
	// the journal would otherwise put back what was revoked after it had read. Taken before mu.
	change sync.Mutex

	mu      sync.RWMutex
	tokens  map[string]Token     // by name; guarded by mu
	used    map[string]time.Time // newer than in tokens; guarded by mu
	changed chan struct{}        // closed at the next change; guarded by mu
}

// Authenticate returns the caller who shows a named token. The error is ErrUnknownToken or
// ErrExpired. It takes as long for a name that does not exist.
func (r *Registry) Authenticate(text string, now time.Time) (Caller, error) {
	name, ok := nameOf(text)
	got := sha256.Sum256([]byte(text))
	r.mu.RLock()
	t, known := r.tokens[name]
	r.mu.RUnlock()
	same := subtle.ConstantTimeCompare(got[:], t.Hash[:]) == 1
	switch {
	case !ok || !known || !same:
		return Caller{}, ErrUnknownToken
	case t.Expired(now):
		return Caller{}, ErrExpired
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.After(r.used[name]) {
		if r.used == nil {
			r.used = map[string]time.Time{}
		}
		r.used[name] = now
	}
	return Caller{Name: "token:" + name, Role: t.Role, Scope: t.Scope, Known: true, Token: name}, nil
}

// Valid reports whether a token that was accepted still is: the same one, not revoked or expired.
func (r *Registry) Valid(text string, now time.Time) bool {
	name, _ := nameOf(text)
	got := sha256.Sum256([]byte(text))
	r.mu.RLock()
	defer r.mu.RUnlock()
	t, ok := r.tokens[name]
	return ok && t.Hash == got && !t.Expired(now)
}

// Expires is the time at which a token expires; zero: never, or there is none.
func (r *Registry) Expires(name string) time.Time {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.tokens[name].Expires
}

// Changed returns a channel that is closed when tokens change.
func (r *Registry) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.changed
}

// notify tells those who wait that something changed. The holder of mu calls it.
func (r *Registry) notify() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// List returns the tokens by name, with the last use that this process knows.
func (r *Registry) List() []Token {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := slices.Collect(maps.Values(r.tokens))
	for i := range list {
		list[i].Used = later(list[i].Used, r.used[list[i].Name])
	}
	slices.SortFunc(list, func(a, b Token) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// NewToken describes a token to create.
type NewToken struct {
	Name    string
	Role    Role
	Scope   Scope
	Expires time.Time // zero: never
	By      string
}

// Create stores a new token and returns its text, which is not stored. Errors: ErrInvalid,
// ErrExists, or that of the store; then nothing was changed.
func (r *Registry) Create(st store.Store, n NewToken, random io.Reader, now time.Time) (text string, t Token, err error) {
	if err := checkName(n.Name); err != nil {
		return "", Token{}, err
	}
	if n.Role == None || n.Role >= roleEnd {
		return "", Token{}, fmt.Errorf("%w: %v is no role for a token", ErrInvalid, n.Role)
	}
	if err := n.Scope.check(n.Role); err != nil {
		return "", Token{}, err
	}
	if !n.Expires.IsZero() && !n.Expires.After(now) {
		return "", Token{}, fmt.Errorf("%w: the token would have expired already", ErrInvalid)
	}
	r.change.Lock()
	defer r.change.Unlock()
	r.mu.RLock()
	_, exists := r.tokens[n.Name]
	full := len(r.tokens) >= maxTokens
	r.mu.RUnlock()
	switch {
	case exists:
		return "", Token{}, ErrExists
	case full:
		return "", Token{}, fmt.Errorf("%w: there are %d tokens, the most there can be", ErrInvalid, maxTokens)
	}
	if text, err = mint(n.Name, random); err != nil {
		return "", Token{}, err
	}
	t = Token{Name: n.Name, Role: n.Role, Scope: n.Scope, Hash: sha256.Sum256([]byte(text)), Created: now, Expires: n.Expires, By: n.By}
	op := t.op()
	if err := st.Apply([]store.Op{op}); err != nil {
		return "", Token{}, err
	}
	r.apply([]store.Op{op})
	return text, t, nil
}

// Revoke removes a token. Errors: ErrNotFound, or that of the store; then nothing was changed.
func (r *Registry) Revoke(st store.Store, name string) (Token, error) {
	r.change.Lock()
	defer r.change.Unlock()
	r.mu.RLock()
	t, ok := r.tokens[name]
	r.mu.RUnlock()
	if !ok {
		return Token{}, fmt.Errorf("%w: %q", ErrNotFound, name)
	}
	op := store.Op{Kind: store.DeleteRecord, Record: store.Record{Table: store.TableTokens, Key: []byte(name)}}
	if err := st.Apply([]store.Op{op}); err != nil {
		return Token{}, err
	}
	r.apply([]store.Op{op})
	return t, nil
}

// SaveUse stores the last uses of tokens that were used at least useStep later than the store knows,
// in one change. It does nothing if there are none.
func (r *Registry) SaveUse(st store.Store) error {
	r.change.Lock()
	defer r.change.Unlock()
	var ops []store.Op
	r.mu.RLock()
	for name, at := range r.used {
		if t, ok := r.tokens[name]; ok && at.Sub(t.Used) >= useStep {
			t.Used = at
			ops = append(ops, t.op())
		}
	}
	r.mu.RUnlock()
	if len(ops) == 0 {
		return nil
	}
	slices.SortFunc(ops, func(a, b store.Op) int { return cmp.Compare(string(a.Record.Key), string(b.Record.Key)) })
	if err := st.Apply(ops); err != nil {
		return err
	}
	r.apply(ops)
	return nil
}

// replace takes the whole state of a store. The holder of change calls it.
func (r *Registry) replace(st *store.State) {
	tokens := map[string]Token{}
	for i := range st.Records {
		rec := &st.Records[i]
		if rec.Table != store.TableTokens {
			continue
		}
		if t, err := decodeToken(rec.Key, rec.Value); err == nil {
			tokens[t.Name] = t
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tokens = tokens
	r.notify()
}

// apply takes changes of a store, and leaves what is not about tokens. The holder of change calls it.
func (r *Registry) apply(ops []store.Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range ops {
		rec := &ops[i].Record
		if ops[i].Kind != store.PutRecord && ops[i].Kind != store.DeleteRecord || rec.Table != store.TableTokens {
			continue
		}
		name := string(rec.Key)
		t, err := Token{}, error(nil)
		if ops[i].Kind == store.PutRecord {
			t, err = decodeToken(rec.Key, rec.Value)
		}
		if ops[i].Kind == store.DeleteRecord || err != nil {
			delete(r.tokens, name)
			delete(r.used, name)
		} else {
			if r.tokens == nil {
				r.tokens = map[string]Token{}
			}
			r.tokens[name] = t
		}
		r.notify()
	}
}
