package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"heddle/sim"
)

var (
	takeovers = flag.Int("takeovers", 100, "processes killed at the first of -hosts (takeover); 40 % as many hosts die, half as many hand over, a tenth of all that at others")
	takeWays  = flag.String("takeover-ways", killed+","+dead+","+handover, "how managers fail (takeover)")
	takePeers = flag.Bool("takeover-peers", true, "kill OpenSM too (takeover)")
)

// takeHosts are the sizes of part takeover unless -hosts is given.
var takeHosts = []int{648, 11664}

// takeLimit bounds the wait for what must come after a fault, takeQuiet is how long a subnet is left
// alone before one: queries of the hosts are under way then.
const (
	takeLimit = 3 * time.Minute
	takeQuiet = 150 * time.Millisecond
	takePoll  = 10 * time.Millisecond
)

// A duo is two managers of a scene.
type duo interface {
	start(i int) error
	// settled waits until a takeover may come, and returns the master.
	settled() (int, error)
	// fail has the master fail, in one of the ways of takeWays.
	fail(i int, how string) error
	// writes is how many changes manager i has stored, -1 if it does not say.
	writes(i int) (int, error)
	stop()
}

// Ways to fail.
const (
	killed   = "kill -9"
	dead     = "host dead"
	handover = "handover"
)

// A taken is one takeover.
type taken struct {
	first, told, answered, changed time.Duration
	gap                            time.Duration // the longest one without an answer to a path query
	passedOn, unanswered           int           // queries: answered with the address of the manager that failed; never
	probes, lost                   int
	lft, mft                       uint64
	lids, mlids, pkeys, again      int
	cold                           bool
}

// takeover measures what hosts notice when their manager dies, or hands over: how long the SA is
// silent, how long it takes until every host knows its manager and is answered, how long changes wait,
// and what is lost. Managers are processes; the subnet is simulated in this one.
func (b *bench) takeover(sizes []int) error {
	var x takeResults
	err := func() error {
		for k, n := range sizes {
			kills := *takeovers
			if k > 0 {
				kills = max(1, kills/10)
			}
			if err := b.takePair(&x, n, kills); err != nil {
				return fmt.Errorf("%d hosts: %w", n, err)
			}
		}
		if *takePeers {
			return b.takePeers(&x, sizes[0])
		}
		return nil
	}()
	return errors.Join(err, b.printTakeovers(&x)) // what there is, if it took long
}

// takeResults are those of part takeover.
type takeResults struct {
	rows []takeRow
	kept []takeKept
	idle []standby
}

func (b *bench) printTakeovers(x *takeResults) error {
	t := b.table("Takeovers", "hosts", "managers", "event", "times", "first answer, p50", "p99", "most", "no answer, p50", "most", "queries lost, p50", "most", "all hosts told, p50", "p99",
		"all joins answered, p50", "p99", "changes wait, p50", "p99")
	for i := range x.rows {
		x.rows[i].print(t)
	}
	t = b.table("What takeovers change", "hosts", "managers", "event", "times", "probes of flows", "lost", "Sets of LFTs", "of MFTs",
		"LIDs changed", "MLIDs changed", "P_Keys changed", "joins written again", "cold")
	for i := range x.rows {
		x.rows[i].printChanges(t)
	}
	t = b.table("What the next manager knows", "hosts", "managers", "services of hosts that say nothing, of 8", "LIDs of hosts that were off, of 8")
	for _, k := range x.kept {
		t.row("%d|%s|%d|%d", k.hosts, k.who, k.services, k.lids)
	}
	return b.printStandbys(x.idle)
}

type takeRow struct {
	hosts    int
	who, how string
	list     []taken
}

// times are two quantiles and the most of a duration; a missing one is 0.
func (r *takeRow) times(of func(*taken) time.Duration) (p50, p99, most string) {
	var v []time.Duration
	for i := range r.list {
		if d := of(&r.list[i]); d > 0 {
			v = append(v, d)
		}
	}
	if len(v) == 0 {
		return "-", "-", "-"
	}
	slices.Sort(v)
	show := func(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }
	return show(v[len(v)/2]), show(v[len(v)*99/100]), show(v[len(v)-1])
}

func (r *takeRow) print(t table) {
	first, late, most := r.times(func(x *taken) time.Duration { return x.first })
	gap, _, gapMost := r.times(func(x *taken) time.Duration { return x.gap })
	var lost []int
	for i := range r.list {
		lost = append(lost, r.list[i].unanswered)
	}
	slices.Sort(lost)
	told, told99, _ := r.times(func(x *taken) time.Duration { return x.told })
	answered, answered99, _ := r.times(func(x *taken) time.Duration { return x.answered })
	changed, changed99, _ := r.times(func(x *taken) time.Duration { return x.changed })
	t.row("%d|%s|%s|%d|%s|%s|%s|%s|%s|%d|%d|%s|%s|%s|%s|%s|%s", r.hosts, r.who, r.how, len(r.list), first, late, most, gap, gapMost, lost[len(lost)/2], lost[len(lost)-1], told, told99, answered, answered99, changed, changed99)
}

func (r *takeRow) printChanges(t table) {
	var x taken
	cold := 0
	for i := range r.list {
		o := &r.list[i]
		x.probes, x.lost, x.lft, x.mft = x.probes+o.probes, x.lost+o.lost, x.lft+o.lft, x.mft+o.mft
		x.lids, x.mlids, x.pkeys = x.lids+o.lids, x.mlids+o.mlids, x.pkeys+o.pkeys
		x.again += o.again
		if o.cold {
			cold++
		}
	}
	again, colds := fmt.Sprint(x.again), fmt.Sprint(cold)
	if r.who != pairName {
		again, colds = "-", "-"
	}
	t.row("%d|%s|%s|%d|%d|%d|%d|%d|%d|%d|%d|%s|%s", r.hosts, r.who, r.how, len(r.list), x.probes, x.lost, x.lft, x.mft, x.lids, x.mlids, x.pkeys, again, colds)
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
	wrote, err := two.writes(next)
	if err != nil {
		return x, err
	}
	s.ask(true)
	defer s.ask(false)
	time.Sleep(takeQuiet)
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
	wrotten, err := two.writes(next)
	if err != nil {
		return x, err
	}
	s.d.Do(func(*sim.Subnet) {
		x.probes, x.lost, x.mlids, x.unanswered = s.probes, s.lost, len(s.moved), len(s.open)
		x.again = max(0, wrotten-wrote-s.acked)
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
	for end := time.Now().Add(takeLimit); ; time.Sleep(takePoll) {
		is := false
		s.d.Do(func(net *sim.Subnet) { is = ok(net) })
		if is {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("not within %v: %s", takeLimit, what)
		}
	}
}

// takePair measures a pair of Heddle's managers.
func (b *bench) takePair(all *takeResults, hosts, kills int) error {
	s, p, err := b.startPair(hosts)
	if err != nil {
		return err
	}
	defer s.end()
	defer p.stop()
	for _, e := range []struct {
		how   string
		times int
	}{{killed, kills}, {dead, max(1, kills*2/5)}, {handover, max(1, kills/2)}} {
		if !slices.Contains(strings.Split(*takeWays, ","), e.how) {
			continue
		}
		all.rows = append(all.rows, takeRow{hosts: hosts, who: pairName, how: e.how})
		r := &all.rows[len(all.rows)-1]
		begin := time.Now()
		if err := s.calm(); err != nil {
			return err
		}
		for range e.times {
			x, err := s.round(p, e.how)
			if err != nil {
				return fmt.Errorf("%w\n%s", err, p.tail())
			}
			x.cold = p.cold
			r.list = append(r.list, x)
			fmt.Fprintf(os.Stderr, "bench: %d hosts, %s: no answer for %v, %d queries lost, %d answered at the old address; told after %v, changes after %v\n", hosts, e.how, x.gap, x.unanswered, x.passedOn, x.told, x.changed)
			if x.mft > 0 || x.lft > 0 && e.how != dead {
				fmt.Fprintf(os.Stderr, "bench: %s: %d Sets of LFTs and %d of MFTs without a change of the subnet\n%s\n", e.how, x.lft, x.mft, p.tail())
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

// tailOf is the end of what programs printed.
func tailOf(list ...*program) string {
	var text strings.Builder
	for i, p := range list {
		if p != nil {
			fmt.Fprintf(&text, "manager %d:\n%s\n", i, last(p.Output()))
		}
	}
	return text.String()
}

// reap kills a program, also one that is stopped.
func reap(p *program) {
	if p != nil {
		p.StopWith(syscall.SIGKILL, 20*time.Second)
	}
}
