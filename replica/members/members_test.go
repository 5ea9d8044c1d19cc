package members_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"heddle/ib"
	"heddle/internal/need"
	"heddle/replica/members"
	"heddle/replica/wire"
	"heddle/store/journal"
	"heddle/subnet"
)

// authority makes certificates.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	n    int64
}

func newAuthority(t testing.TB) *authority {
	a := &authority{t: t, n: 1}
	a.cert, a.key = a.make(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil)
	return a
}

func (a *authority) make(c *x509.Certificate, by *authority) (*x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.n++
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(a.n), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := c, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	got, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return got, key
}

// of is the configuration of a host.
func (a *authority) of(ip string) *tls.Config {
	c, key := a.make(&x509.Certificate{
		IPAddresses: []net.IP{net.ParseIP(ip)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a)
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{RootCAs: pool, ClientCAs: pool, Certificates: []tls.Certificate{{Certificate: [][]byte{c.Raw}, PrivateKey: key}}}
}

// trio is three managers.
type trio struct {
	t    testing.TB
	ms   [3]*members.Members
	end  [3]func()
	news chan struct{}

	mu   sync.Mutex
	said map[string]int // how often which settings were said to differ; guarded by mu
}

// differ is how often which settings were said to differ.
func (x *trio) differ() map[string]int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.said)
}

func newTrio(t testing.TB, outsider int) *trio {
	t.Helper()
	x := &trio{t: t, news: make(chan struct{}, 1), said: map[string]int{}}
	first := need.Port(t, 3)
	host := func(i int) string { return net.JoinHostPort("127.0.0."+string(rune('1'+i)), itoa(first+i)) }
	a, foreign := newAuthority(t), newAuthority(t)
	for i := range x.ms {
		by := a
		if i == outsider {
			by = foreign
		}
		m, err := members.New(members.Config{
			Listen: host(i), Peers: []string{host(0), host(1), host(2)}, TLS: by.of("127.0.0." + string(rune('1'+i))),
			Last:  func() journal.Mark { return journal.Mark{Number: uint64(10 + i)} },
			Clock: func() int64 { return time.Now().Add(time.Duration(1-i) * time.Hour).UnixNano() },
			OnDiffer: func(_ string, names []string) {
				x.mu.Lock()
				defer x.mu.Unlock()
				x.said[strings.Join(names, " ")]++
			},
			Changed: func() {
				select {
				case x.news <- struct{}{}:
				default:
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		x.ms[i] = m
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		x.end[i] = func() {
			if cancel(); ended != nil {
				if err := <-ended; err != nil {
					t.Error(err)
				}
				ended = nil
			}
		}
		t.Cleanup(func() { x.end[i]() })
		m.Begin(ib.GUID(i + 1))
	}
	return x
}

func itoa(n int) string { return big.NewInt(int64(n)).String() }

// until waits until ok.
func (x *trio) until(what string, ok func() bool) {
	x.t.Helper()
	limit, look := time.After(need.Patience), time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !ok() {
		select {
		case <-x.news:
		case <-look.C:
		case <-limit:
			x.t.Fatalf("this did not happen: %s\n%+v\n%+v\n%+v", what, x.ms[0].Members(), x.ms[1].Members(), x.ms[2].Members())
		}
	}
}

// sees reports whether manager i sees the one with a GUID as described.
func (x *trio) sees(i int, guid ib.GUID, ok func(members.Member) bool) bool {
	for _, m := range x.ms[i].Members() {
		if m.GUID == guid {
			return ok(m)
		}
	}
	return false
}

func open(m members.Member) bool   { return m.Err == "" }
func active(m members.Member) bool { return m.Err == "" && m.Active }

// TestMembers: three managers see each other, who is master, and what it publishes. When one ends, the
// others know.
func TestMembers(t *testing.T) {
	x := newTrio(t, -1)
	for i := range 3 {
		for k := range 3 {
			if k != i {
				x.until("all streams", func() bool { return x.sees(i, ib.GUID(k+1), open) })
			}
		}
		x.until("the own address is left out", func() bool { return len(x.ms[i].Members()) == 2 })
	}
	x.ms[0].Show(&subnet.Snapshot{Gen: 1}) // it is not master
	x.ms[0].Lead(true)
	s := &subnet.Snapshot{Gen: 7, State: subnet.Master, Up: true, Self: subnet.NoRef()}
	x.ms[0].Show(s)
	for i := 1; i < 3; i++ {
		x.until("the master is known", func() bool { return x.sees(i, 1, active) })
		x.until("what it publishes is known", func() bool { s := x.ms[i].Warm(1); return s != nil && s.Gen == 7 })
		if x.ms[i].Warm(2) != nil || x.ms[i].Warm(9) != nil {
			t.Error("somebody else shows something")
		}
	}
	x.end[0]()
	for i := 1; i < 3; i++ {
		x.until("the end of the master is known", func() bool {
			return x.sees(i, 1, func(m members.Member) bool { return !m.Heard && !m.Active && m.Err != "" })
		})
		if x.ms[i].Warm(1) == nil {
			t.Error("what the master published is forgotten at its end")
		}
	}
	x.ms[1].Lead(true)
	x.until("the next master is known", func() bool { return x.sees(2, 2, active) })
	x.ms[1].Show(s)
	x.until("what it publishes is known", func() bool { return x.ms[2].Warm(2) != nil })
	x.ms[1].Hang(true)
	x.until("its loop hangs", func() bool { return x.sees(2, 2, func(m members.Member) bool { return open(m) && !m.Active }) })
	if x.ms[2].Warm(2) == nil {
		t.Error("what it published is forgotten when its loop hangs")
	}
	x.ms[1].Hang(false)
	x.until("its loop turns again", func() bool { return x.sees(2, 2, active) })
	x.ms[1].Lead(false)
	x.until("it is master no more", func() bool { return x.sees(2, 2, func(m members.Member) bool { return open(m) && !m.Active }) })
	x.until("the third knows the last entry that the second knows", func() bool { return x.ms[2].Newest().Number >= 11 })
}

// TestDiffer: each manager says of each other one which settings differ, and when none does any more.
func TestDiffer(t *testing.T) {
	x := newTrio(t, -1)
	of := func(value string) []wire.Setting {
		return []wire.Setting{{Name: "engine", Value: "ftree"}, {Name: "hoq-life", Value: value}}
	}
	for i := range 3 {
		x.ms[i].SetSettings(of([]string{"17", "17", "18"}[i]))
	}
	differs := func(what string, want ...string) {
		t.Helper()
		for i := range 3 {
			for k := range 3 {
				if k != i {
					names := want[i+k-1]
					x.until(what, func() bool {
						return x.sees(i, ib.GUID(k+1), func(m members.Member) bool { return open(m) && strings.Join(m.Differ, " ") == names })
					})
				}
			}
		}
	}
	differs("the third one differs", "", "hoq-life", "hoq-life") // managers 0 and 1, 0 and 2, 1 and 2
	if got := x.differ(); got["hoq-life"] != 4 {
		t.Errorf("%v", got)
	}
	x.ms[2].SetSettings(of("17"))
	differs("none differs", "", "", "")
	if got := x.differ(); got["hoq-life"] != 4 || got[""] != 4 {
		t.Errorf("%v", got)
	}
}

// TestOutsider: one with a certificate of another authority neither shows nor sees anything.
func TestOutsider(t *testing.T) {
	x := newTrio(t, 2)
	x.ms[0].Lead(true)
	x.ms[2].Lead(true)
	x.until("the two see each other", func() bool { return x.sees(1, 1, active) && x.sees(0, 2, open) })
	x.until("the third one was refused", func() bool {
		for _, m := range x.ms[2].Members() {
			if m.Err == "" || m.Err == "no stream yet" {
				return false
			}
		}
		return true
	})
	for i := range 2 {
		if x.sees(i, 3, open) {
			t.Error("a manager with another authority is a member")
		}
	}
}

// TestClock: the time of the first master goes on over changes of the master, although the clocks of the
// machines differ by an hour and by two.
func TestClock(t *testing.T) {
	x := newTrio(t, -1)
	is := func(i int, off time.Duration) func() bool {
		return func() bool {
			d := time.Duration(x.ms[i].Wall()-time.Now().UnixNano()) - off
			return d.Abs() < time.Minute
		}
	}
	for i := range x.ms {
		if !is(i, time.Duration(1-i)*time.Hour)() {
			t.Fatalf("manager %d begins with another time than its own", i)
		}
	}
	x.ms[1].Lead(true)
	x.until("the others follow the clock of the first master", func() bool { return is(0, 0)() && is(2, 0)() })
	x.end[1]()
	x.ms[2].Lead(true)
	x.until("the third is heard as master", func() bool {
		for _, m := range x.ms[0].Members() {
			if m.GUID == 3 && m.Active {
				return true
			}
		}
		return false
	})
	if !is(2, 0)() || !is(0, 0)() {
		t.Errorf("the time went to %v and %v", time.Unix(0, x.ms[0].Wall()), time.Unix(0, x.ms[2].Wall()))
	}
}
