package sa_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/replica"
	"heddle/sa"
	"heddle/store"
)

// machine is one of the two on which a pair of managers runs.
type machine struct {
	skew   time.Duration // of its wall clock
	booted time.Duration
	boot   uint64
	clock  replica.Clock
}

func (m *machine) mono(now time.Duration) mad.Time { return mad.Time(now-m.booted) + 1 }

// start starts the manager's process.
func (m *machine) start(now time.Duration) {
	m.booted, m.boot = now, m.boot+1
	m.clock.Start(m.mono(now), 1_700_000_000_000_000_000+int64(now+m.skew))
}

// TestLeasesOnTwoClocks: the wall clocks of the two managers of a pair are an hour fast and an hour
// slow, and are set, while leases last over takeovers. Each service ends once, within a second of its
// lease. The standby knows the time by signs, which come late.
func TestLeasesOnTwoClocks(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 9))
		two := [2]machine{{skew: time.Hour}, {skew: -time.Hour}}
		active := 0
		var now time.Duration
		for i := range two {
			two[i].start(now)
		}
		r := newFixture(t, snapshot(3, 0), sa.Config{SAKey: saKey})
		var began time.Duration // of the mastership
		take := func(i int) {
			active, began = i, now
			r.wall = two[i].clock.At(two[i].mono(now))
			r.restart()
			r.publish(r.snap)
		}
		take(0)
		due := map[uint64]time.Duration{}
		ended := map[uint64]time.Duration{}
		register := func(id uint64, lease time.Duration) {
			s := serviceOf(id, 1, "leased")
			s.ServiceLease = uint32(lease / time.Second)
			if st := status(r.ask(3, ask(ib.MethodSet, wire.AttrServiceRecord, compRID|wire.ServiceCompServiceLease, s))); st != 0 {
				t.Fatalf("register %d: %v", id, st)
			}
			due[id] = now + lease
		}
		events := map[time.Duration]func(){
			100 * time.Second: func() { take(1) },
			150 * time.Second: func() { two[0].skew = -time.Hour; two[0].start(now) },
			200 * time.Second: func() { take(0) },
			250 * time.Second: func() { two[1].skew = time.Hour; two[1].start(now) },
			300 * time.Second: func() { take(1) },
		}
		const step = 100 * time.Millisecond
		type late struct {
			boot uint64
			wall int64
		}
		way := map[time.Duration][]late{} // signs, by when they arrive
		id := uint64(0)
		for ; now < 420*time.Second; now += step {
			if f := events[now]; f != nil {
				f()
			}
			if now%(7*time.Second) == 0 && now < 350*time.Second {
				id++
				register(id, time.Duration(1+random.IntN(150))*time.Second)
			}
			if id == 0 || now == 10*time.Second {
				id++
				register(id, time.Hour)
			}
			a, b := &two[active], &two[1-active]
			at := now + time.Duration(random.IntN(12))*step
			if random.IntN(4) == 0 {
				at = now
			}
			way[at] = append(way[at], late{a.boot<<8 | uint64(active), a.clock.At(a.mono(now))})
			for _, s := range way[now] {
				if s.boot&0xFF == uint64(active) {
					b.clock.Heard(b.mono(now), s.boot, s.wall)
				}
			}
			delete(way, now)
			r.until(mad.Time(now - began))
			left := map[uint64]bool{}
			for _, rec := range r.stored {
				if rec.Table == store.TableServices {
					left[uint64(rec.Key[7])|uint64(rec.Key[6])<<8] = true
				}
			}
			for k, want := range due {
				switch _, over := ended[k]; {
				case !left[k] && !over:
					if d := now - want; d < -time.Second || d > time.Second {
						t.Errorf("seed %d: service %d ends after %v, due after %v", seed, k, now, want)
					}
					ended[k] = now
				case left[k] && over:
					t.Errorf("seed %d: service %d is back after %v", seed, k, now)
				case left[k] && now > want+time.Second:
					t.Fatalf("seed %d: service %d is there after %v, due after %v", seed, k, now, want)
				}
			}
		}
		if len(ended) < 30 || len(due)-len(ended) < 1 {
			t.Fatalf("%d of %d services ended", len(ended), len(due))
		}
	}
}
