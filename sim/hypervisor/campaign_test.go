package hypervisor

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"heddle/sim/dataplane"
	"heddle/sim/host/adapter"
	"heddle/sim/host/program"
	"heddle/sim/host/rc"
)

// seeds are those of a campaign: HEDDLE_SEEDS of them, or HEDDLE_SEED alone.
func seeds(t testing.TB, usual int) (list []uint64) {
	if s := os.Getenv("HEDDLE_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		return []uint64{n}
	}
	if s := os.Getenv("HEDDLE_SEEDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		usual = n
	}
	for i := range usual {
		list = append(list, uint64(i))
	}
	return list
}

// TestConserved: in random schedules of migrations of every way, with cables that fail,
// managers that refuse or roll back, and peers on any host, no message is lost,
// doubled or out of order, and no connection ends.
func TestConserved(t *testing.T) {
	moved, failed := 0, 0
	for _, seed := range seeds(t, 30) {
		for _, way := range Ways() {
			t.Run(fmt.Sprint(way, "/", seed), func(t *testing.T) {
				m, f := conserve(t, way, seed)
				moved, failed = moved+m, failed+f
			})
		}
	}
	t.Logf("%d migrations, %d that failed", moved, failed)
	if os.Getenv("HEDDLE_SEED") == "" && (moved == 0 || failed == 0 || failed > moved) {
		t.Error("too few of one kind")
	}
}

func conserve(t *testing.T, way Way, seed uint64) (moved, failed int) {
	r := rand.New(rand.NewPCG(seed, uint64(way)))
	s := newStar(t, 5)
	m := s.machine(way, r.IntN(4))
	o := adapter.Options{MTU: 256 << r.IntN(4), Window: 1 + r.IntN(64), AckEvery: r.IntN(8)}
	timer := uint8(12 + r.IntN(3)) // 16.8 to 67.1 ms: 7 of them are longer than a migration takes
	send := rc.Sender{Timeout: timer, Retries: 7, RNRRetries: 7, PSN: 0}
	for range 1 + r.IntN(5) {
		p := program.Stream{Bytes: 1 + r.IntN(20000), Depth: 1 + r.IntN(8), Seed: r.Uint64()}
		if r.IntN(3) > 0 {
			p.Gap = dataplane.Time(10+r.IntN(500)) * dataplane.Microsecond
		} else {
			p.Limit = uint64(500 + r.IntN(2000))
		}
		peer := r.IntN(5)
		if way == FloatingLID && peer != 4 { // on other hosts the machine takes the port's LID
			peer = 4
		}
		m.connect(peer, r.IntN(2) == 0, o, send, p)
	}
	copied := rc.Sender{Timeout: 10, Retries: 7, RNRRetries: 7}
	for range 1 + r.IntN(3) {
		s.run(time.Duration(r.IntN(4000)) * time.Microsecond)
		to := r.IntN(4)
		if to == m.at {
			to = (to + 1) % 4
		}
		c := quick(way, r.IntN(3) > 0, seed)
		c.Copy.Dirty *= 4 * r.Float64()
		m.faults = &faults{refuse: r.IntN(8) == 0, settle: r.IntN(5) == 0}
		if r.IntN(4) == 0 { // for less than the retries of any connection
			cut := s.cable[r.IntN(5)]
			s.after(time.Duration(r.IntN(25_000))*time.Microsecond, func() { s.e.CutLink(cut) })
			s.after(time.Duration(25_000+r.IntN(15_000))*time.Microsecond, func() { s.e.RestoreLink(cut) })
		}
		if r.IntN(10) == 0 { // the memory does not get through
			s.after(time.Duration(r.IntN(20_000))*time.Microsecond, func() {
				_ = m.out.Do(func(q *rc.QP, _ adapter.Time) error { q.Fail(); return nil })
			})
		}
		g := m.migrate(to, c, o, copied)
		for range 400 {
			s.run(time.Millisecond)
			if g.Done() {
				break
			}
		}
		if !g.Done() {
			t.Fatalf("seed %d: the migration from %d to %d does not end: %+v, phase %d", seed, m.from, to, g.Marks(), g.phase)
		}
		moved++
		if g.Err() != nil {
			failed++
		}
		if want := g.Err() == nil; want != (m.at == to) {
			t.Fatalf("seed %d: at %d, from %d to %d: %v", seed, m.at, m.from, to, g.Err())
		}
		m.Close()
		s.run(time.Duration(r.IntN(100)) * time.Millisecond)
	}
	for _, x := range m.ends {
		x.Stop()
	}
	s.run(2 * time.Second)
	m.check()
	return moved, failed
}
