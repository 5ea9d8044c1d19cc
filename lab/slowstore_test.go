package lab

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/sa"
	"heddle/sim"
	"heddle/store"
)

// slowGroup is the MGID of group number n.
func slowGroup(n int) ib.GID { return ib.MakeGID(0xFF12_A01C_0000_0000, ib.GUID(n)) }

// joinMAD makes a port a full member of a group, or ends that.
func joinMAD(method ib.Method, mgid, port ib.GID) *ib.MAD {
	var m ib.MAD
	wire.New(&m, method, wire.AttrMCMemberRecord, 0, wire.MCMemberCompMGID|wire.MCMemberCompPortGID|wire.MCMemberCompJoinState|
		wire.MCMemberCompQKey|wire.MCMemberCompTClass|wire.MCMemberCompPKey|wire.MCMemberCompSL|wire.MCMemberCompFlowLabel)
	r := wire.MCMemberRecord{MGID: mgid, PortGID: port, PKey: ib.PKeyDefaultFull, QKey: 0x0B1B, JoinState: wire.JoinFull}
	r.Put(wire.Data(&m))
	return &m
}

// TestJoinsWhileChangesHang: after a takeover the first change waits for two seconds, and further ones
// for each other, as those of a pair whose partner died with its host. Joins of hosts that are members
// are answered meanwhile, without a write. All else waits, and what was acknowledged is stored.
func TestJoinsWhileChangesHang(t *testing.T) {
	first, n := seeds(8, 200)
	for seed := first; seed < first+n; seed++ {
		rng := rand.New(rand.NewPCG(seed, 31))
		f := gen(t, "xgft", "2", "4,4", "1,2")
		c, was := serveUp(t, f, sim.Config{Seed: seed, HopLatency: time.Microsecond, SMALatency: 30 * time.Microsecond})
		hosts := cas(f)[2:]
		type host struct {
			*Client
			gid ib.GID
		}
		var list []host
		acked := func(b []byte, err error) bool {
			return err == nil && binary.BigEndian.Uint16(b[4:]) == 0
		}
		for i, name := range hosts {
			k, err := c.Client(name)
			if err != nil {
				t.Fatal(err)
			}
			pi := k.Endpoint().PortInfo()
			h := host{k, was.Snap.GID(was.Snap.PortByLID(pi.LID))}
			list = append(list, h)
			if i%4 == 0 {
				continue // a host that is no member yet
			}
			for g := range 3 {
				if b, err := h.Ask(time.Second, joinMAD(ib.MethodSet, slowGroup(g), h.gid)); !acked(b, err) {
					t.Fatalf("seed %d: a first join: %v", seed, err)
				}
			}
		}
		warm := mirrorOf(t, was.Snap)
		was.Kill()
		m, err := c.Attach(cas(f)[1], TrialConfig(), was.Store.Reopen())
		if err != nil {
			t.Fatal(err)
		}
		cfg := SAConfig(1)
		cfg.MustSave = true
		m.ServeSA(cfg, sa.Options{SAKey: 1})
		writes := 0
		m.SlowSAStore(func() time.Duration {
			if writes++; writes == 1 {
				return 2 * time.Second
			}
			return time.Duration(rng.IntN(int(20 * time.Millisecond)))
		})
		m.SetWarm(warm)
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
		must(t, c.RunUntil(time.Second, func() bool {
			for _, h := range list {
				if h.Endpoint().PortInfo().MasterSMLID != m.ep.PortInfo().LID {
					return false
				}
			}
			return true
		}))
		began := c.Sim.Now()
		isMember := func(g int, h *host) bool {
			st, err := m.Store.Load()
			must(t, err)
			for _, r := range st.Records {
				if r.Table == store.TableMembers && ib.GID(r.Key[:16]) == slowGroup(g) && ib.GID(r.Key[16:]) == h.gid {
					return true
				}
			}
			return false
		}
		type asked struct {
			h    *host
			g    int
			tid  uint32
			join bool
		}
		var open []asked
		answered := 0
		look := func() {
			for i := 0; i < len(open); i++ {
				a := open[i]
				b, ok := a.h.Got(a.tid)
				if !ok {
					continue
				}
				open = append(open[:i], open[i+1:]...)
				i--
				if !acked(b, nil) {
					continue
				}
				if a.join && !isMember(a.g, a.h) {
					t.Fatalf("seed %d: a join was acknowledged at %v and is not stored", seed, c.Sim.Now().Sub(began))
				}
			}
		}
		// One host changes something first, so that a write hangs.
		stranger := &list[0]
		open = append(open, asked{stranger, 0, stranger.Send(joinMAD(ib.MethodSet, slowGroup(0), stranger.gid)), true})
		c.Run(time.Millisecond)
		for c.Sim.Now().Sub(began) < 1900*time.Millisecond {
			i := rng.IntN(len(list))
			h, g := &list[i], rng.IntN(3)
			switch {
			case i%4 == 0:
				open = append(open, asked{h, g, h.Send(joinMAD(ib.MethodSet, slowGroup(g), h.gid)), true})
			case i == 1: // it leaves a group and joins it again, in either order
				method := []ib.Method{ib.MethodSet, ib.MethodDelete}[rng.IntN(2)]
				open = append(open, asked{h, g, h.Send(joinMAD(method, slowGroup(g), h.gid)), false})
			default:
				b, err := h.Ask(time.Millisecond, joinMAD(ib.MethodSet, slowGroup(g), h.gid))
				if !acked(b, err) {
					t.Fatalf("seed %d: the join of a member after %v: %v, %x", seed, c.Sim.Now().Sub(began), err, b)
				}
				answered++
			}
			c.Run(time.Duration(rng.IntN(int(20 * time.Millisecond))))
			look()
		}
		if writes != 1 || answered < 20 {
			t.Fatalf("seed %d: %d writes began, %d members were answered", seed, writes, answered)
		}
		must(t, c.RunUntil(10*time.Second, func() bool { look(); return len(open) == 0 }))
	}
}
