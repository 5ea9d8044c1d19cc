package process

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"heddle/access"
	"heddle/api"
	"heddle/store"
	"heddle/store/journal"
	"heddle/store/ring"
)

// useTime is how often it is looked whether the last uses of tokens are to be stored.
const useTime = time.Minute

// tokens are the named tokens of a process.
type tokens struct {
	registry access.Registry

	polling sync.Mutex
	follow  access.Follower // guarded by polling, which may wait for a store on other machines

	mu    sync.Mutex
	store store.Store // of the manager that runs; nil on standby; guarded by mu
}

// poll takes what other managers, or this one, changed.
func (t *tokens) poll(st store.Store) error {
	t.polling.Lock()
	defer t.polling.Unlock()
	return t.follow.Poll(st)
}

// writer is the store to change tokens in.
func (t *tokens) writer() store.Store {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.store
}

func (t *tokens) enter(st store.Store) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.store = st
}

// only reports whether this process alone writes the store.
func (t *tokens) only(st store.Store) bool {
	if s, ok := st.(interface{ Holds() bool }); ok { // a manager runs without the term too
		return s.Holds()
	}
	return t.writer() != nil
}

// followTokens keeps the tokens up to date until ctx ends.
func (p *Process) followTokens(ctx context.Context) {
	st := p.cfg.Authority.Store()
	_, shared := st.(journal.Store)
	var failed string
	use, was := 0, false
	for tick := time.NewTicker(access.PollTime); ; {
		// Nobody else writes a store without a journal, or that of an active manager. When it becomes
		// active it looks once more.
		only := p.tokens.only(st)
		if shared && !(only && was) {
			err := p.tokens.poll(st)
			if text := fmt.Sprint(err); err != nil && text != failed && ctx.Err() == nil {
				p.log().Warn("the named tokens cannot be read; those of before stay valid", "kind", "tokens_unread", "err", err)
				failed = text
			} else if err == nil {
				failed = ""
			}
		}
		was = only
		if use += int(access.PollTime); use >= int(useTime) {
			use = 0
			if w := p.tokens.writer(); w != nil {
				_ = p.tokens.registry.SaveUse(w) // it is tried again, and nothing depends on it
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return
		}
	}
}

func (p *Process) log() *slog.Logger {
	if p.cfg.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return p.cfg.Log
}

// keeper changes tokens in the store of the manager that runs. It implements api.TokenKeeper.
type keeper struct{ p *Process }

func (k keeper) ready() (store.Store, error) {
	st := k.p.tokens.writer()
	if st == nil {
		return nil, fmt.Errorf("%w: no manager runs in this process", store.ErrUnavailable)
	}
	return st, k.p.tokens.poll(k.p.cfg.Authority.Store())
}

// CreateToken implements api.TokenKeeper.
func (k keeper) CreateToken(n access.NewToken) (string, access.Token, error) {
	st, err := k.ready()
	if err != nil {
		return "", access.Token{}, err
	}
	return k.p.tokens.registry.Create(st, n, rand.Reader, time.Now())
}

// RevokeToken implements api.TokenKeeper.
func (k keeper) RevokeToken(name string) (access.Token, error) {
	st, err := k.ready()
	if err != nil {
		return access.Token{}, err
	}
	return k.p.tokens.registry.Revoke(st, name)
}

// auditor keeps the audit log in a ring, and adds entries to the events. It implements api.Auditor.
type auditor struct {
	p    *Process
	ring *ring.Ring
}

// Audit implements api.Auditor.
func (a *auditor) Audit(e access.Entry) {
	e.Time = time.Now()
	b, err := json.Marshal(e)
	if err == nil {
		if e.Seq, err = a.ring.Append(e.Time, b); err == nil {
			err = a.ring.Sync()
		}
	}
	// Viewers read events: who it was and from where stays in the audit log, which is for administrators.
	attrs := map[string]string{"role": e.Role, "method": e.Method, "path": e.Path, "status": strconv.Itoa(e.Status)}
	if e.Seq > 0 {
		attrs["audit"] = strconv.FormatUint(e.Seq, 10)
	}
	text := fmt.Sprintf("%s %s: %d", e.Method, e.Path, e.Status)
	a.p.log().Info(text, "kind", "audit", "who", e.Who, "role", e.Role, "from", e.From, "audit", e.Seq)
	a.p.events.Add(api.Event{Time: e.Time, Level: "info", Kind: "audit", Message: text, Attrs: attrs})
	if err != nil {
		a.p.log().Error("the audit log cannot be written", "kind", "audit_failed", "err", err)
		a.p.events.Add(api.Event{Time: e.Time, Level: "error", Kind: "audit_failed", Message: "the audit log cannot be written", Attrs: map[string]string{"err": err.Error()}})
	}
}

// Audited implements api.Auditor.
func (a *auditor) Audited(after uint64, since time.Time, limit int) (list []access.Entry, err error) {
	err = a.ring.Read(after, func(rec ring.Record) bool {
		var e access.Entry
		if rec.Time.Before(since) || json.Unmarshal(rec.Data, &e) != nil {
			return true
		}
		e.Seq, e.Time = rec.Number, rec.Time
		list = append(list, e)
		return len(list) < limit
	})
	return list, err
}
