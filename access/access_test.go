package access

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	"heddle/store"
	"heddle/store/journal"
)

var day = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func random(seed byte) *rand.ChaCha8 { return rand.NewChaCha8([32]byte{seed}) }

func create(t *testing.T, r *Registry, st store.Store, n NewToken) string {
	t.Helper()
	text, _, err := r.Create(st, n, random(byte(len(n.Name))), day)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestTokens: a token is accepted until it expires or is revoked, with its role; nothing else is, and
// the store has no secret.
func TestTokens(t *testing.T) {
	var r Registry
	st := store.NewMemory()
	if _, err := r.Authenticate("heddle.ops.x", day); !errors.Is(err, ErrUnknownToken) {
		t.Errorf("an empty registry: %v", err)
	}
	ops := create(t, &r, st, NewToken{Name: "ops", Role: Operator, Expires: day.Add(time.Hour), By: "socket:uid=0"})
	acme := create(t, &r, st, NewToken{Name: "acme", Role: Tenant, Scope: Scope{Prefix: "acme-", PKeys: []ib.PKey{5}}})
	if c, err := r.Authenticate(ops, day); err != nil || c.Role != Operator || c.Name != "token:ops" || !c.Known || c.Token != "ops" {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := r.Authenticate(acme, day); err != nil || !c.Scope.Owns("acme-1") || c.Scope.Owns("acm") || c.Scope.Owns("other") {
		t.Errorf("%+v, %v", c, err)
	}
	for _, wrong := range []string{
		"", "heddle.", "heddle.ops", "heddle.ops.", ops + "A", ops[:len(ops)-1], strings.Replace(ops, "ops", "acme", 1),
		strings.Replace(acme, "acme", "ops", 1), "heddle.none." + ops[len("heddle.ops."):], strings.ToUpper(ops), ops[len("heddle."):],
	} {
		if _, err := r.Authenticate(wrong, day); !errors.Is(err, ErrUnknownToken) {
			t.Errorf("%q is accepted: %v", wrong, err)
		}
	}
	if _, err := r.Authenticate(ops, day.Add(time.Hour)); !errors.Is(err, ErrExpired) || r.Valid(ops, day.Add(time.Hour)) || !r.Valid(ops, day) {
		t.Errorf("after its time: %v", err)
	}
	st2, err := st.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range st2.Records {
		for _, text := range []string{ops, acme} {
			if secret := text[len(text)-secretLen:]; bytes.Contains(rec.Value, []byte(secret)) {
				t.Errorf("the store has the secret of %s", rec.Key)
			}
		}
	}
	changed := r.Changed()
	if _, err := r.Revoke(st, "ops"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	default:
		t.Error("who waits for changes is not woken")
	}
	if _, err := r.Authenticate(ops, day); !errors.Is(err, ErrUnknownToken) || r.Valid(ops, day) {
		t.Errorf("a revoked token: %v", err)
	}
	if _, err := r.Revoke(st, "ops"); !errors.Is(err, ErrNotFound) {
		t.Errorf("revoked twice: %v", err)
	}
	if _, _, err := r.Create(st, NewToken{Name: "acme", Role: Viewer}, random(1), day); !errors.Is(err, ErrExists) {
		t.Errorf("a name twice: %v", err)
	}
	for _, n := range []NewToken{
		{Name: "", Role: Viewer},
		{Name: "a b", Role: Viewer},
		{Name: "a.b", Role: Viewer},
		{Name: strings.Repeat("a", 65), Role: Viewer},
		{Name: "x"},
		{Name: "x", Role: 77},
		{Name: "x", Role: Tenant},
		{Name: "x", Role: Tenant, Scope: Scope{Prefix: "a b"}},
		{Name: "x", Role: Tenant, Scope: Scope{Prefix: "a", PKeys: []ib.PKey{0}}},
		{Name: "x", Role: Tenant, Scope: Scope{Prefix: "a", PKeys: []ib.PKey{0x7fff}}},
		{Name: "x", Role: Viewer, Scope: Scope{Prefix: "a"}},
		{Name: "x", Role: Viewer, Expires: day},
	} {
		if _, _, err := r.Create(st, n, random(1), day); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", n, err)
		}
	}
	if _, _, err := r.Create(st, NewToken{Name: "x", Role: Viewer}, strings.NewReader("short"), day); err == nil {
		t.Error("a token without enough randomness")
	}
	st.FailNext = 1
	if _, err := r.Revoke(st, "acme"); err == nil {
		t.Error("no error of the store")
	}
	if _, err := r.Authenticate(acme, day); err != nil {
		t.Errorf("a token whose revocation was not stored: %v", err)
	}
	for i := range maxTokens - 1 {
		create(t, &r, st, NewToken{Name: fmt.Sprint("n", i), Role: Viewer})
	}
	if _, _, err := r.Create(st, NewToken{Name: "more", Role: Viewer}, random(1), day); !errors.Is(err, ErrInvalid) {
		t.Errorf("more than the most: %v", err)
	}
}

// counting counts the changes of a store.
type counting struct {
	journal.Store
	n int
}

func (c *counting) Apply(ops []store.Op) error {
	c.n++
	return c.Store.Apply(ops)
}

// TestLastUse: many uses are one change every 10 minutes, and List has the newest.
func TestLastUse(t *testing.T) {
	var r Registry
	st := &counting{Store: journal.NewMemory(100)}
	text := create(t, &r, st, NewToken{Name: "a", Role: Viewer})
	create(t, &r, st, NewToken{Name: "b", Role: Viewer})
	st.n = 0
	for i := range 3600 {
		now := day.Add(time.Duration(i) * time.Second)
		if _, err := r.Authenticate(text, now); err != nil {
			t.Fatal(err)
		}
		if i%60 == 0 {
			if err := r.SaveUse(st); err != nil {
				t.Fatal(err)
			}
		}
	}
	if st.n != 6 {
		t.Errorf("3600 uses in an hour are %d changes of the store, want 6", st.n)
	}
	list := r.List()
	if len(list) != 2 || !list[0].Used.Equal(day.Add(3599*time.Second)) || !list[1].Used.IsZero() {
		t.Errorf("%+v", list)
	}
	var other Registry
	f := Follower{Registry: &other}
	if err := f.Poll(st); err != nil {
		t.Fatal(err)
	}
	if got := other.List(); !got[0].Used.Equal(day.Add(50 * time.Minute)) {
		t.Errorf("stored: %v", got[0].Used)
	}
}

// TestFollower: a registry that follows a journal has the tokens of the store after each look, also
// when the journal was trimmed, replaced or went on in another history; it reads no more than it must.
func TestFollower(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 30 {
		st := &reads{Memory: journal.NewMemory(1 + rng.IntN(20))}
		var writer, reader Registry
		f := Follower{Registry: &reader}
		names := []string{}
		for step := range 60 {
			switch rng.IntN(6) {
			case 0, 1:
				n := fmt.Sprint("t", step)
				create(t, &writer, st, NewToken{Name: n, Role: Viewer})
				names = append(names, n)
			case 2:
				if len(names) > 0 {
					i := rng.IntN(len(names))
					if _, err := writer.Revoke(st, names[i]); err != nil {
						t.Fatal(err)
					}
					names = slices.Delete(names, i, i+1)
				}
			case 3, 4:
				for range rng.IntN(8) {
					op := store.Op{Kind: store.PutRecord, Record: store.Record{Table: store.TableGroups, Key: []byte{byte(step)}, Value: make([]byte, rng.IntN(500))}}
					if err := st.Apply([]store.Op{op}); err != nil {
						t.Fatal(err)
					}
				}
			case 5:
				if rng.IntN(4) == 0 { // another history, of the same numbers or others
					s, at, err := st.Contents()
					if err != nil {
						t.Fatal(err)
					}
					s.Records = slices.DeleteFunc(s.Records, func(r store.Record) bool {
						return r.Table == store.TableTokens && len(names) > 0 && string(r.Key) == names[0]
					})
					if len(names) > 0 {
						names = names[1:]
					}
					at.Term.Number++
					at.Number = max(at.Number-uint64(rng.IntN(3)), 1)
					if err := st.Replace(s, at); err != nil {
						t.Fatal(err)
					}
					w := Follower{Registry: &writer}
					if err := w.Poll(st); err != nil {
						t.Fatal(err)
					}
				}
			}
			if rng.IntN(3) > 0 {
				continue
			}
			if err := f.Poll(st); err != nil {
				t.Fatal(err)
			}
			got := []string{}
			for _, x := range reader.List() {
				got = append(got, x.Name)
			}
			want := slices.Sorted(slices.Values(names))
			if !slices.Equal(got, want) {
				t.Fatalf("round %d, step %d: the reader has %v, want %v", round, step, got, want)
			}
			st.entries, st.whole = 0, 0
			if err := f.Poll(st); err != nil || st.entries+st.whole > 0 {
				t.Fatalf("nothing changed, and %d entries and %d states were read: %v", st.entries, st.whole, err)
			}
		}
	}
}

// reads counts what is read of a journal.
type reads struct {
	*journal.Memory
	entries, whole int
}

func (r *reads) Contents() (*store.State, journal.Mark, error) {
	r.whole++
	return r.Memory.Contents()
}

func (r *reads) Entries(from uint64, size int) ([]journal.Entry, error) {
	list, err := r.Memory.Entries(from, min(size, 600))
	r.entries += len(list)
	return list, err
}

// TestFollowerWithoutJournal: a store without a journal is read whole.
func TestFollowerWithoutJournal(t *testing.T) {
	st := store.NewMemory()
	var a, b Registry
	text := create(t, &a, st, NewToken{Name: "a", Role: Admin})
	f := Follower{Registry: &b}
	if err := f.Poll(st); err != nil || !b.Valid(text, day) {
		t.Errorf("%v", err)
	}
	st.Close()
	if f.Poll(st) == nil || !b.Valid(text, day) {
		t.Error("a store that cannot be read takes the tokens away, or says nothing")
	}
}

// TestFailures: the twenty-first wrong credential in a minute waits until the minute is over.
func TestFailures(t *testing.T) {
	f := Failures{Most: 20, Span: time.Minute}
	for i := range 20 {
		if w := f.Wait("a", day); w != 0 {
			t.Fatalf("after %d: wait %v", i, w)
		}
		f.Add("a", day.Add(time.Duration(i)*time.Second))
	}
	if w := f.Wait("a", day.Add(20*time.Second)); w != 40*time.Second {
		t.Errorf("wait %v, want 40s", w)
	}
	if f.Wait("b", day) != 0 || f.Wait("a", day.Add(time.Minute)) != 0 {
		t.Error("others wait, or it waits forever")
	}
	f.Add("a", day.Add(time.Minute))
	if f.Wait("a", day.Add(time.Minute)) != 0 {
		t.Error("a new minute begins with the old count")
	}
	for i := range 3 * mostKeys {
		f.Add(fmt.Sprint(i), day.Add(time.Duration(i)*time.Millisecond))
	}
	if len(f.by) > mostKeys {
		t.Errorf("%d addresses are remembered", len(f.by))
	}
}

func TestRate(t *testing.T) {
	r := Rate{PerSecond: 10, Burst: 100}
	now, done := day, 0
	for range 600 { // ten seconds, 60 tries a second
		if r.Take("a", now) == 0 {
			done++
		}
		now = now.Add(time.Second / 60)
	}
	if done < 199 || done > 201 {
		t.Errorf("%d requests in ten seconds, want 200", done)
	}
	w := r.Take("a", now)
	if w <= 0 || w > 100*time.Millisecond || r.Take("a", now.Add(w)) != 0 {
		t.Errorf("wait %v", w)
	}
	if r.Take("b", now) != 0 {
		t.Error("another one waits")
	}
	for i := range 3 * mostKeys {
		r.Take(fmt.Sprint(i), now)
	}
	if len(r.by) > mostKeys {
		t.Errorf("%d callers are remembered", len(r.by))
	}
}

func TestClients(t *testing.T) {
	c, err := ParseClients(strings.NewReader("# roles\n\n  operator   CN=alice,O=Example\ntenant:acme- CN=acme, O=Example Inc\nadmin CN=root\n"), "f")
	if err != nil {
		t.Fatal(err)
	}
	for subject, want := range map[string]Role{"CN=alice,O=Example": Operator, "CN=acme, O=Example Inc": Tenant, "CN=root": Admin, "CN=alice": None, "CN=root,O=x": None} {
		x, ok := c.Of(subject)
		if ok != (want != None) || x.Role != want || ok && x.Name != "cert:"+subject {
			t.Errorf("%s: %+v, %v", subject, x, ok)
		}
	}
	if x, _ := c.Of("CN=acme, O=Example Inc"); x.Scope.Prefix != "acme-" {
		t.Errorf("%+v", x)
	}
	if _, ok := (*Clients)(nil).Of("CN=alice"); ok {
		t.Error("without a file")
	}
	for _, bad := range []string{
		"operator", "operator alice", "root CN=x", "none CN=x", "tenant CN=x", "viewer:x CN=x", "tenant: CN=x",
		"viewer CN=x\nadmin CN=x", strings.Repeat("# comment\n", maxClients/10+1),
	} {
		if _, err := ParseClients(strings.NewReader(bad), "file"); err == nil || !strings.HasPrefix(err.Error(), "file:") {
			t.Errorf("%.40q: %v", bad, err)
		}
	}
}

// TestDiff: differences name fields, and never a key.
func TestDiff(t *testing.T) {
	type thing struct {
		Name   string   `json:"name"`
		State  string   `json:"state"`
		MKey   string   `json:"m_key"`
		QKey   string   `json:"qkey"`
		Token  string   `json:"token"`
		Secret string   `json:"client_secret"`
		List   []string `json:"list,omitempty"`
		Sub    any      `json:"sub,omitempty"`
	}
	a := thing{Name: "x", State: "created", MKey: "planted-1", QKey: "planted-2", Token: "planted-3", List: []string{"a", "b"}}
	b := a
	b.State, b.MKey, b.Secret, b.List, b.Sub = "attached", "planted-4", "planted-5", []string{"a"}, map[string]any{"password": "planted-6", "pkey": "0x5"}
	got := Diff(a, b)
	if want := []string{"list[1]: b -> none", "state: created -> attached", "sub.pkey: 0x5"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := Diff(nil, a); len(got) != 4 || strings.Contains(fmt.Sprint(got), "planted") {
		t.Errorf("%q", got)
	}
	if got := RedactLines([]string{"- b=2, Q_Key=0x1234;", "+ d: mkey = planted", "+ c"}); fmt.Sprint(got) != "[- b=2, Q_Key=...; + d: mkey = ... + c]" {
		t.Errorf("%q", got)
	}
	for in, want := range map[string]string{
		`{"name":"x","token":"planted","list":[{"m_key":"planted","pkey":"0x5"}],"text":"sa_key=planted"}`: `{"list":[{"pkey":"0x5"}],"name":"x","text":"sa_key=..."}`,
		`{"a":"token:x heddle.x.` + strings.Repeat("A", 43) + ` and more"}`:                                `{"a":"token:x heddle... and more"}`,
		`not json`:       "",
		`["planted"]`:    "",
		`{"config":"x"}`: "{}",
	} {
		if got := RedactBody([]byte(in)); got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
	if got := RedactBody([]byte(`{"a":"` + strings.Repeat("é", maxRequest) + `"}`)); len(got) > maxRequest+3 {
		t.Errorf("%d bytes", len(got))
	}
	many := Bounded(slices.Repeat([]string{strings.Repeat("x", 2*maxLine)}, 3*maxChange))
	if len(many) != maxChange+1 || len(many[0]) > maxLine+3 || many[maxChange] != "and 200 more lines" {
		t.Errorf("%d lines, %d bytes, %q", len(many), len(many[0]), many[len(many)-1])
	}
}

func FuzzClients(f *testing.F) {
	f.Add("operator CN=alice,O=Example\ntenant:a- CN=b\n# c\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseClients(strings.NewReader(text), "f")
		if err != nil {
			return
		}
		for subject, x := range c.by {
			if x.Role == None || x.Role >= roleEnd || subject == "" || x.Scope.check(x.Role) != nil {
				t.Errorf("%q: %+v", subject, x)
			}
		}
	})
}

func FuzzToken(f *testing.F) {
	tok := Token{Name: "a", Role: Tenant, Scope: Scope{Prefix: "a-", PKeys: []ib.PKey{5}}, Created: day, Expires: day, Used: day, By: "b"}
	f.Add("a", tok.op().Record.Value)
	f.Add("b", []byte(`{"Version":2}`))
	f.Fuzz(func(t *testing.T, name string, value []byte) {
		got, err := decodeToken([]byte(name), value)
		if err != nil {
			return
		}
		again, err := decodeToken([]byte(name), got.op().Record.Value)
		if err != nil || again.Role != got.Role || again.Hash != got.Hash || !again.Expires.Equal(got.Expires) {
			t.Errorf("%+v becomes %+v, %v", got, again, err)
		}
	})
}
