// Package takeover measures what hosts notice when their manager fails, hands over or is restarted.
//
// Managers are processes. The subnet is simulated in this one, with hosts that do what those of a
// cluster do (scene). What is measured is a round: a fault, and all that must come after it.
package takeover

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"heddle/internal/bench/pair"
	"heddle/internal/bench/testbed"
	"heddle/sim"
)

// Options are the settings of Measure.
type Options struct {
	Kills int    // at the first of the sizes
	Ways  string // how managers fail, with commas between
	Peers bool   // kill OpenSM too
}

// Flags are the flags of Measure, with their values once they are parsed.
func Flags(fs *flag.FlagSet) *Options {
	o := &Options{}
	fs.IntVar(&o.Kills, "takeovers", 100, "processes killed at the first of -hosts (takeover); 40 % as many hosts die, half as many hand over, and as many end by SIGTERM, a tenth of all that at others")
	fs.StringVar(&o.Ways, "takeover-ways", strings.Join([]string{killed, dead, handover, ended}, ","), "how managers fail (takeover)")
	fs.BoolVar(&o.Peers, "takeover-peers", true, "kill OpenSM too (takeover)")
	return o
}

// waitLimit bounds the wait for what must come after a fault, beforeFault is how long a subnet is left
// alone before one: queries of the hosts are under way then.
const (
	waitLimit   = 3 * time.Minute
	beforeFault = 150 * time.Millisecond
	poll        = 10 * time.Millisecond
)

// A duo is two managers of a scene.
type duo interface {
	// start starts manager i after the end of its process, which it waits for if that is planned.
	start(i int) error
	// settled waits until a takeover may come, and returns the master.
	settled() (int, error)
	// fail has the master fail, in one of the ways below.
	fail(i int, how string) error
	// last is the number of the last entry in the journal of manager i, and joins how many joins are
	// in later ones. Both are 0 if it has no journal.
	last(i int) (uint64, error)
	joins(i int, after uint64) (int, error)
	stop()
}

// Ways to fail.
const (
	killed   = "kill -9"
	dead     = "host dead"
	handover = "handover"
	ended    = "SIGTERM" // a planned end of the process, as by systemctl stop
)

// Measure measures what hosts notice when their manager dies, or hands over: how long the SA is
// silent, how long it takes until every host knows its manager and is answered, how long changes wait,
// and what is lost. Managers are processes; the subnet is simulated in this one.
func Measure(b *testbed.Testbed, o *Options, sizes []int) error {
	var x results
	err := func() error {
		for k, n := range sizes {
			kills := o.Kills
			if k > 0 {
				kills = max(1, kills/10)
			}
			if err := measurePair(b, o, &x, n, kills); err != nil {
				return fmt.Errorf("%d hosts: %w", n, err)
			}
		}
		if o.Peers {
			return measurePeers(b, o, &x, sizes[0])
		}
		return nil
	}()
	return errors.Join(err, printTakeovers(b, &x)) // what there is, if it took long
}

// errMoved: the master is another one than a moment ago. On a machine that others use, it may not get
// the processor for as long as it takes to count as dead.
var errMoved = errors.New("another manager is master by now")

// round has the master fail once, waits until all is well again, and starts it anew.
func (s *scene) round(two duo, how string) (x taken, err error) {
	for range 10 {
		if x, err = s.tryRound(two, how); !errors.Is(err, errMoved) {
			break
		}
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	return x, err
}

func (s *scene) tryRound(two duo, how string) (x taken, err error) {
	master, err := two.settled()
	if err != nil {
		return x, err
	}
	next := 1 - master
	before := s.look()
	last, err := two.last(master)
	if err != nil {
		return x, err
	}
	s.ask(true)
	defer s.ask(false)
	time.Sleep(beforeFault)
	s.begin(s.lidOf(next))
	if err := two.fail(master, how); err != nil {
		return x, err
	}
	err = s.await("hosts are told and answered", func(*sim.Subnet) bool {
		return s.first > 0 && s.changedAt > 0 && s.told == len(s.present()) && s.answered == sceneJoins*s.told
	})
	if err != nil {
		return x, fmt.Errorf("%s: %w (%d of %d told, %d joins answered, first answer %v, change %v)", how, err, s.told, len(s.present()), s.answered, s.first > 0, s.changedAt > 0)
	}
	s.d.Do(func(*sim.Subnet) {
		x.first, x.told = s.first.Sub(s.begun), s.toldAt.Sub(s.begun)
		x.answered, x.changed = s.answeredAt.Sub(s.begun), s.changedAt.Sub(s.begun)
		x.gap = s.silent
		x.passedOn = s.passedOn
	})
	s.ask(false)
	if how != handover {
		if err := two.start(master); err != nil {
			return x, err
		}
	}
	if _, err := two.settled(); err != nil { // OpenSM may have given the subnet back
		return x, err
	}
	after := s.look()
	if x.again, err = two.joins(next, last); err != nil {
		return x, err
	}
	s.d.Do(func(*sim.Subnet) {
		x.probes, x.lost, x.mlids, x.unanswered = s.probes, s.lost, len(s.moved), len(s.open)
	})
	x.lft, x.mft = after.lft-before.lft, after.mft-before.mft
	x.lids, x.pkeys = after.changed(&before)
	return x, nil
}

// ask begins or ends queries, changes and probes.
func (s *scene) ask(on bool) {
	s.d.Do(func(net *sim.Subnet) {
		s.asks, s.changeDue = on, net.Now()
	})
}

// present are the hosts that are not off.
func (s *scene) present() (list []*sceneHost) {
	for _, h := range s.hosts {
		if !h.off {
			list = append(list, h)
		}
	}
	return list
}

// await waits for something that the subnet shows.
func (s *scene) await(what string, ok func(*sim.Subnet) bool) error {
	for end := time.Now().Add(waitLimit); ; time.Sleep(poll) {
		is := false
		s.d.Do(func(net *sim.Subnet) { is = ok(net) })
		if is {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("not within %v: %s", waitLimit, what)
		}
	}
}

// measurePair measures a pair of Heddle's managers.
func measurePair(b *testbed.Testbed, o *Options, all *results, hosts, kills int) error {
	s, p, err := startPair(b, hosts)
	if err != nil {
		return err
	}
	defer s.end()
	defer p.stop()
	for _, e := range []struct {
		how   string
		times int
	}{{killed, kills}, {dead, max(1, kills*2/5)}, {handover, max(1, kills/2)}, {ended, max(1, kills/2)}} {
		if !slices.Contains(strings.Split(o.Ways, ","), e.how) {
			continue
		}
		all.rows = append(all.rows, row{hosts: hosts, who: pair.Name, how: e.how})
		r := &all.rows[len(all.rows)-1]
		begin := time.Now()
		if err := s.calm(); err != nil {
			return err
		}
		for range e.times {
			x, err := s.round(p, e.how)
			if err != nil {
				return fmt.Errorf("%w\n%s", err, p.Tail())
			}
			x.cold, x.end = p.cold, p.end
			r.list = append(r.list, x)
			fmt.Fprintf(os.Stderr, "bench: %d hosts, %s: no answer for %v, %d queries lost, %d answered at the old address; told after %v, changes after %v\n", hosts, e.how, x.gap, x.unanswered, x.passedOn, x.told, x.changed)
			if x.mft > 0 || x.lft > 0 && e.how != dead {
				fmt.Fprintf(os.Stderr, "bench: %s: %d Sets of LFTs and %d of MFTs without a change of the subnet\n%s\n", e.how, x.lft, x.mft, p.Tail())
			}
		}
		fmt.Fprintf(os.Stderr, "bench: %d hosts, %s: %d times in %.0f s\n", hosts, e.how, e.times, time.Since(begin).Seconds())
	}
	st, err := p.idle(hosts)
	if err == nil {
		all.idle = append(all.idle, st)
	}
	return err
}

// calm waits until the tables have not changed for a while: trees of groups are made after the joins.
func (s *scene) calm() error {
	var last uint64
	var since time.Time
	return s.await("tables that stay", func(net *sim.Subnet) bool {
		st := net.Stats()
		if n := st.LFTSets + st.MFTSets; n != last || since.IsZero() {
			last, since = n, time.Now()
		}
		return time.Since(since) > time.Second
	})
}
