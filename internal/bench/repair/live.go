package repair

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"heddle/fabric"
	"heddle/internal/bench/testbed"
	"heddle/lab"
)

// liveFabrics are those of the part in real time.
var liveFabrics = []string{"torus 4x4", "irregular, 1.5 links", "fat tree, 2 levels, damaged"}

// liveNet is a netlist, console commands that damage it before a manager
// starts, and the faults that are made on it.
type liveNet struct {
	name, path, host string
	damage, faults   []string
}

// liveResult is a fault in real time.
type liveResult struct {
	broken int           // pairs that it broke
	took   time.Duration // until the last of them worked again
	over   bool          // it took longer than the limit
	again  int           // pairs that broke later
}

const (
	liveLimit = time.Minute            // for one repair
	liveQuiet = 500 * time.Millisecond // so long nothing is broken after a repair
)

// live causes the same faults under Heddle and OpenSM, each on a fresh
// simulator with a fresh manager, in turn. The simulator counts broken pairs
// after every write, so the times are exact regardless of the polling interval.
func live(b *testbed.Testbed, o *Options) error {
	var nets []*liveNet
	for _, k := range lab.RepairFabrics() {
		if !slices.Contains(liveFabrics, k.Name) {
			continue
		}
		n, err := newNet(b, &k, o.Live)
		if err != nil {
			return err
		}
		nets = append(nets, n)
	}
	results := map[string][2][]liveResult{}
	begin := time.Now()
	for i := 0; i < o.Live && time.Since(begin) < o.Time; i++ {
		for _, n := range nets {
			if i >= len(n.faults) {
				continue
			}
			both := results[n.name]
			for m := range testbed.Managers {
				r, err := liveFault(b, testbed.Managers[m], n, n.faults[i])
				if err != nil {
					return fmt.Errorf("%s, %s, %s: %w", testbed.Managers[m], n.name, n.faults[i], err)
				}
				both[m] = append(both[m], r)
			}
			results[n.name] = both
		}
	}
	t := testbed.NewTable("Repair of single faults, real time", "fabric", "manager", "faults that broke pairs", "pairs", "median", "p99", "max", "pairs broken later")
	for _, n := range append(nets, &liveNet{name: "all"}) {
		for m := range testbed.Managers {
			list := results[n.name][m]
			if n.name == "all" {
				for _, o := range nets {
					list = append(list, results[o.name][m]...)
				}
			}
			liveRow(t, n.name, testbed.Managers[m], list)
		}
	}
	return nil
}

func liveRow(t testbed.Table, name, manager string, list []liveResult) {
	var times []time.Duration
	pairs, again, over := 0, 0, ""
	for _, r := range list {
		if r.broken == 0 {
			continue
		}
		pairs += r.broken
		again += r.again
		times = append(times, r.took)
		if r.over {
			over = "> "
		}
	}
	if len(times) == 0 {
		t.Row("%s|%s|0 of %d|||||", name, manager, len(list))
		return
	}
	slices.Sort(times)
	t.Row("%s|%s|%d of %d|%d|%s|%s|%s%s|%d", name, manager, len(times), len(list), pairs, testbed.Brief(times[len(times)/2]),
		testbed.Brief(times[min(len(times)-1, len(times)*99/100)]), over, testbed.Brief(times[len(times)-1]), again)
}

// newNet writes a netlist and draws the faults.
func newNet(b *testbed.Testbed, k *lab.RepairFabric, faults int) (*liveNet, error) {
	f, err := k.Make(1)
	if err != nil {
		return nil, err
	}
	n := &liveNet{name: k.Name, path: filepath.Join(b.Dir, strings.NewReplacer(" ", "", ",", "-").Replace(k.Name)+".net")}
	w, err := os.Create(n.path)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(fabric.WriteNetlist(w, f), w.Close()); err != nil {
		return nil, err
	}
	var links, sw []string
	for i := range f.Nodes {
		nd := &f.Nodes[i]
		if !nd.IsSwitch() {
			if n.host == "" {
				n.host = nd.ID
			}
			continue
		}
		mine := false // the manager's switch stays
		for p := 1; p <= nd.NumPorts; p++ {
			q := nd.Ports[p].Peer
			switch {
			case !nd.Ports[p].Cabled():
			case f.Nodes[q.Node].IsSwitch():
				if int(q.Node) > i {
					links = append(links, fmt.Sprintf("%q[%d]", nd.ID, p))
				}
			default:
				mine = mine || f.Nodes[q.Node].ID == n.host
			}
		}
		if !mine {
			sw = append(sw, nd.ID)
		}
	}
	rng := rand.New(rand.NewPCG(1, 0x6C697665))
	rng.Shuffle(len(links), func(i, j int) { links[i], links[j] = links[j], links[i] })
	for _, l := range links[:k.Damage] {
		n.damage = append(n.damage, "unlink "+l)
	}
	links = links[k.Damage:]
	for range faults {
		if rng.IntN(3) == 0 {
			n.faults = append(n.faults, fmt.Sprintf("node down %q", sw[rng.IntN(len(sw))]))
		} else {
			n.faults = append(n.faults, "unlink "+links[rng.IntN(len(links))])
		}
	}
	return n, nil
}

// counted is the console's report on pairs.
type counted struct {
	works, broken, breaks int
	took                  time.Duration
}

// console is the simulator's, where a command is answered by a line.
type console struct {
	p  *testbed.Program
	at int
}

func (c *console) say(line string) error {
	_, err := fmt.Fprintln(c.p.In, line)
	return err
}

// pairs reads the counts since `pairs watch`.
func (c *console) pairs() (r counted, err error) {
	if err := c.say("pairs"); err != nil {
		return r, err
	}
	end, err := c.p.Proc.Await(`works \d+ broken \d+ .*took \S+\n`, c.at, 10*time.Second)
	if err != nil {
		return r, err
	}
	said := strings.Fields(c.p.Output()[c.at:end])
	c.at = end
	for i := 0; i+1 < len(said); i++ {
		switch v := said[i+1]; said[i] {
		case "works":
			r.works, err = strconv.Atoi(v)
		case "broken":
			r.broken, err = strconv.Atoi(v)
		case "breaks":
			r.breaks, err = strconv.Atoi(v)
		case "took":
			r.took, err = time.ParseDuration(v)
		}
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

// until polls until a condition holds.
func (c *console) until(limit time.Duration, ok func(counted) bool) (r counted, err error) {
	for begin := time.Now(); ; {
		if r, err = c.pairs(); err != nil || ok(r) {
			return r, err
		}
		since := time.Since(begin)
		if since > limit {
			return r, testbed.ErrLimit
		}
		time.Sleep(min(max(since/10, 5*time.Millisecond), 200*time.Millisecond))
	}
}

// liveFault causes one fault under a manager.
func liveFault(b *testbed.Testbed, manager string, n *liveNet, fault string) (r liveResult, err error) {
	s, name, err := b.Simulate("heddle sim", n.path)
	if err != nil {
		return r, err
	}
	defer s.Stop(syscall.SIGKILL)
	c := &console{p: s}
	for _, line := range n.damage {
		if err := c.say(line); err != nil {
			return r, err
		}
	}
	tmp, err := os.MkdirTemp(b.Dir, "repair")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(tmp)
	var p *testbed.Program
	if manager == "heddle" {
		p, err = testbed.Launch(b.Dir, nil, b.Heddle, "sm", "--port", "ibsim:"+n.host+"@"+name, "--api", "", "--api-socket", filepath.Join(tmp, "api"))
	} else {
		p, err = b.StartOpenSM(tmp, name, n.host, "-d", "2", "-f", "stdout", "-R", "updn")
	}
	if err != nil {
		return r, err
	}
	defer p.Stop(syscall.SIGKILL)
	if _, err := p.Await("SUBNET UP", b.Limit); err != nil {
		return r, err
	}
	if err := c.say("pairs watch"); err != nil {
		return r, err
	}
	if _, err := c.until(30*time.Second, func(k counted) bool { return k.works > 0 && k.broken == 0 }); err != nil {
		return r, fmt.Errorf("not all pairs work before the fault: %w", err)
	}
	time.Sleep(time.Second) // the manager's remaining work after bring-up
	if err := errors.Join(c.say("pairs watch"), c.say(fault)); err != nil {
		return r, err
	}
	k, err := c.pairs()
	if err != nil || k.breaks == 0 {
		return r, err
	}
	r.broken = k.breaks
	for {
		k, err = c.until(liveLimit, func(k counted) bool { return k.broken == 0 })
		if r.over = errors.Is(err, testbed.ErrLimit); r.over {
			r.took = liveLimit
			return r, nil
		}
		if err != nil {
			return r, err
		}
		time.Sleep(liveQuiet)
		last := k
		if k, err = c.pairs(); err != nil {
			return r, err
		}
		if k == last {
			r.took, r.again = k.took, k.breaks-r.broken
			return r, nil
		}
	}
}
