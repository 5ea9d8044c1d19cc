package daemon

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sm"
	"heddle/store"
)

// crowdPort is a port in memory: hosts ask for paths, and one of them, the prober, waits for
// its answers.
type crowdPort struct {
	pipe
	ask      ib.MAD
	queries  chan [2]ib.LID // source and destination
	prober   ib.LID
	answered chan struct{} // of the prober
}

func (p *crowdPort) Recv(q *mad.Packet) error {
	x, ok := <-p.queries
	if !ok {
		return errors.New("the end")
	}
	*q = mad.Packet{Addr: mad.Addr{LID: x[0], QP: 1}, LocalQP: 1, Data: append(q.Data[:0], p.ask[:]...)}
	binary.BigEndian.PutUint16(q.Data[wire.DataOffset+40:], uint16(x[1]))
	binary.BigEndian.PutUint16(q.Data[wire.DataOffset+42:], uint16(x[0]))
	return nil
}

func (p *crowdPort) Send(q *mad.Packet) error {
	if q.Addr.LID == p.prober {
		p.answered <- struct{}{}
	}
	return nil
}

// probe asks for paths one after the other until stop is closed, with a pause of 0 to 400 µs
// after each, and returns the times to the answers.
func (p *crowdPort) probe(lids []ib.LID, stop chan struct{}) (took []time.Duration) {
	rng := rand.New(rand.NewPCG(3, 3))
	for {
		select {
		case <-stop:
			return took
		default:
		}
		began := time.Now()
		p.queries <- [2]ib.LID{p.prober, lids[rng.IntN(len(lids))]}
		<-p.answered
		took = append(took, time.Since(began))
		pause(time.Duration(rng.IntN(int(400 * time.Microsecond))))
	}
}

// pause sleeps by the kernel: timers of Go wait in steps of a millisecond, and all that are due
// in one begin together. The load of a benchmark is paced in real time; no test waits so.
func pause(d time.Duration) {
	if d > 0 {
		t := syscall.NsecToTimespec(int64(d))
		_ = syscall.Nanosleep(&t, nil)
	}
}

// stampede is how a crowd asks: so many hosts a second (0: all at once), each for crowdPaths
// paths, so many at once.
type stampede struct {
	name       string
	rate, once int
}

const crowdPaths = 32

// run has all hosts but the prober ask.
func (s *stampede) run(p *crowdPort, hosts []ib.LID) {
	rng := rand.New(rand.NewPCG(4, 4))
	began := time.Now()
	parts := crowdPaths / s.once
	for i := range (len(hosts) - 1) * parts {
		if s.rate > 0 {
			pause(time.Until(began.Add(time.Second * time.Duration(i) / time.Duration(s.rate*parts))))
		}
		for range s.once {
			p.queries <- [2]ib.LID{hosts[1+i/parts], hosts[rng.IntN(len(hosts))]}
		}
	}
}

// measure returns the median and the 99th percentile of the prober's times, in µs, during a
// function.
func (p *crowdPort) measure(hosts []ib.LID, during func()) (median, high float64) {
	stop, end := make(chan struct{}), make(chan []time.Duration)
	go func() { end <- p.probe(hosts, stop) }()
	during()
	close(stop)
	took := <-end
	slices.Sort(took)
	us := func(k int) float64 { return took[k].Seconds() * 1e6 }
	return us(len(took) / 2), us(len(took) * 99 / 100)
}

// BenchmarkStampede measures what TestStampede of package sa models: the time to the answer for
// a host that was not notified, while 11,664 others ask for 32 paths each, as many hosts in a
// second as Reports are sent (--signal-rate), or all at once; heddle agent has 16 queries in
// flight. Real workers answer, and the port is memory; the crowd takes part of the processors.
// It gives medians over the rounds of the median and of the 99th percentile, idle and during
// the crowd, and of their ratio in a round.
func BenchmarkStampede(b *testing.B) {
	snap := bringUp(b, "xgft", "3", "18,18,36", "1,18,18")
	hosts := lids(snap)
	for _, c := range []stampede{{"2000/16", 2000, 16}, {"2000/32", 2000, 32}, {"all", 0, 32}} {
		b.Run(c.name, func(b *testing.B) {
			p := &crowdPort{
				ask: ib.MAD(pathQuery(0, 0, 1).Data), queries: make(chan [2]ib.LID, 1<<13),
				prober: hosts[0], answered: make(chan struct{}, 1),
			}
			d := New(Config{Port: p, Core: sm.Defaults(), Store: store.NewMemory()})
			d.shared.Snap.Store(snap)
			defer d.administer(nil)()
			go d.receive()
			defer close(p.queries)
			runtime.GC() // of the bring-up
			var figures [5][]float64
			for b.Loop() {
				idle, idleHigh := p.measure(hosts, func() { pause(2 * time.Second) })
				busy, busyHigh := p.measure(hosts, func() { c.run(p, hosts) })
				for i, v := range []float64{idle, idleHigh, busy, busyHigh, busyHigh / idleHigh} {
					figures[i] = append(figures[i], v)
				}
			}
			for i, name := range []string{"idle-p50-µs", "idle-p99-µs", "busy-p50-µs", "busy-p99-µs", "p99-ratio"} {
				slices.Sort(figures[i])
				b.ReportMetric(figures[i][len(figures[i])/2], name)
			}
		})
	}
}
