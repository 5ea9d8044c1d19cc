// Package stampede measures how long hosts wait for a path while all others ask for many.
//
// The hosts are in a relay between the manager and its simulator, so that a query costs the machine
// two datagrams.
package stampede

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"heddle/ib"
	"heddle/internal/bench/rawibsim"
	"heddle/internal/bench/testbed"
)

// stampeded is a manager behind a relay.
type stampeded struct {
	bin, net string
	others   float64 // Options.Others
	sim, sm  *testbed.Program
	relay    *relay
	api      *http.Client
	crowd    *crowd

	switches map[string]bool // by description
	cables   []string        // a port at the end of each, as the simulator's console names it
}

// A load is what the others do while quiet hosts ask.
type load struct {
	who   string
	phase phase
	alone bool // only the manager is measured
}

// who answers in a row of the table.
const (
	byEcho = iota
	byManager
	byBase
)

func loads() []load {
	return []load{
		{who: "nobody", phase: phase{length: time.Second}},
		{who: "2,000 hosts/s, 16 queries at once, at a port that ignores them", phase: phase{rate: 2000, once: 16, ignored: true}, alone: true},
		{who: "2,000 hosts/s, 16 queries at once", phase: phase{rate: 2000, once: 16}},
		{who: "2,000 hosts/s, 32 queries at once", phase: phase{rate: 2000, once: 32}},
		{who: "hosts with a Report of a failed cable, 16 queries at once", phase: phase{notified: true, once: 16}, alone: true},
		{who: "all hosts at once, 16 queries each", phase: phase{once: 16}},
	}
}

// Options are the settings of this part.
type Options struct {
	Base   string  // a program to compare with; none: ""
	Others float64 // share of the processors that other programs may use while answers count
}

// Measure measures how long hosts wait for a path that were not notified of a change, while all
// others ask for 32 paths each. An echo in the place of the manager shows what part the crowd
// itself, the sockets and the machine have in it. With a base two programs are compared in turn.
func Measure(b *testbed.Testbed, o Options, sizes []int) error {
	t := testbed.NewTable("Queries of quiet hosts during a stampede", "hosts", "who else asks", "answers", "median", "90 %", "99 %", "÷ idle, 99 %",
		"÷ echo, 99 %", "counted", "lost", "BUSY to the crowd", "queries/s of the crowd", "CPU a query")
	for _, n := range sizes {
		if err := measureSize(b, o, t, n); err != nil {
			return fmt.Errorf("%d hosts: %w", n, err)
		}
	}
	return nil
}

type figures struct{ median, ninety, high, idle, echo, counted, lost, busy, rate, cpu float64 }

func measureSize(b *testbed.Testbed, o Options, t testbed.Table, hosts int) error {
	netlist, err := b.Netlist(hosts)
	if err != nil {
		return err
	}
	bins := []string{b.Heddle}
	if o.Base != "" {
		path, err := filepath.Abs(o.Base)
		if err != nil {
			return err
		}
		bins = append(bins, path)
	}
	who := []*stampeded{byEcho: nil}
	for _, bin := range bins {
		s := &stampeded{bin: bin, net: netlist, others: o.Others}
		who = append(who, s)
		defer s.stop()
		if err := s.start(b); err != nil {
			return err
		}
	}
	who[byEcho] = who[byManager]
	loads := loads()
	runs := make([][][]figures, len(who))
	for i := range runs {
		runs[i] = make([][]figures, len(loads))
	}
	for round := range b.Runs {
		for k := range loads {
			for i, s := range who {
				p := loads[k].phase
				if p.echo = i == byEcho; p.echo && loads[k].alone {
					continue
				}
				f, err := s.measure(&p)
				if err != nil {
					return err
				}
				runs[i][k] = append(runs[i][k], f)
				f.idle = f.high / runs[i][0][round].high
				if e := runs[byEcho][k]; len(e) > 0 {
					f.echo = f.high / e[round].high
				}
				runs[i][k][round] = f
			}
		}
	}
	for k := range loads {
		for i := range who {
			row(t, hosts, loads[k].who, []string{"echo", "heddle", "base"}[i], runs[i][k])
		}
	}
	return nil
}

// row prints the medians of one load.
func row(t testbed.Table, hosts int, what, who string, f []figures) {
	if len(f) == 0 {
		return
	}
	mid := func(get func(*figures) float64) float64 {
		var v []float64
		for i := range f {
			v = append(v, get(&f[i]))
		}
		return testbed.Median(v)
	}
	t.Row("%d|%s|%s|%s|%s|%s|%.1f|%.1f|%.0f %%|%.0f|%.0f|%.0f|%s", hosts, what, who,
		testbed.Microseconds(mid(func(f *figures) float64 { return f.median })),
		testbed.Microseconds(mid(func(f *figures) float64 { return f.ninety })),
		testbed.Microseconds(mid(func(f *figures) float64 { return f.high })),
		mid(func(f *figures) float64 { return f.idle }), mid(func(f *figures) float64 { return f.echo }),
		mid(func(f *figures) float64 { return 100 * f.counted }), mid(func(f *figures) float64 { return f.lost }),
		mid(func(f *figures) float64 { return f.busy }), mid(func(f *figures) float64 { return f.rate }),
		testbed.Microseconds(mid(func(f *figures) float64 { return f.cpu })))
}

// measure repeats a phase until it has enough answers from times in which other programs left
// the machine alone.
func (s *stampeded) measure(p *phase) (f figures, err error) {
	var took []time.Duration
	var all, queries int
	var spent time.Duration
	for try := 0; try < tries && len(took) < answers; try++ {
		q := *p
		before := testbed.CPUTime(s.sm.Pid())
		w, err := s.run(&q)
		if err != nil {
			return f, err
		}
		spent += testbed.CPUTime(s.sm.Pid()) - before
		all += len(q.took)
		queries += len(q.took)
		for _, x := range q.took {
			if w.quiet(x.at, s.others) {
				took = append(took, x.took)
			}
		}
		f.lost += float64(q.lost)
		f.busy += float64(q.busy)
		if p.once > 0 && !p.ignored {
			queries += q.hosts * crowdPaths
			f.rate = float64(q.hosts*crowdPaths) / q.lasted.Seconds()
		}
	}
	if len(took) == 0 {
		return f, errors.New("other programs use the machine all the time")
	}
	slices.Sort(took)
	us := func(k int) float64 { return float64(took[k].Nanoseconds()) / 1e3 }
	f.median, f.ninety, f.high = us(len(took)/2), us(len(took)*9/10), us(len(took)*99/100)
	f.counted = float64(len(took)) / float64(all)
	f.cpu = spent.Seconds() * 1e6 / float64(queries)
	return f, nil
}

const (
	tries   = 10
	answers = 2000
)

// run runs a phase and notes what other programs do.
func (s *stampeded) run(p *phase) (w watched, err error) {
	p.crowd, p.end = s.crowd, make(chan struct{})
	w.note(s)
	s.relay.next.Store(p)
	if p.notified {
		if err := s.cut(); err != nil {
			return w, err
		}
	}
	t := time.NewTicker(100 * time.Millisecond)
	defer t.Stop()
	for limit := time.Now().Add(2 * time.Minute); time.Now().Before(limit); {
		select {
		case <-p.end:
			w.note(s)
			return w, nil
		case err := <-s.relay.done:
			s.relay.done <- err
			return w, fmt.Errorf("the relay has ended: %w", err)
		case <-t.C:
			w.note(s)
		}
	}
	return w, errors.New("a measurement does not end")
}

// watched is how busy the machine was, at some times: by all programs, and by those measured.
type watched []struct {
	at        time.Time
	all, ours time.Duration
}

// note adds the present.
func (w *watched) note(s *stampeded) {
	var self unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &self)
	*w = append(*w, struct {
		at        time.Time
		all, ours time.Duration
	}{time.Now(), machineTime(), testbed.CPUTime(s.sm.Pid()) + testbed.CPUTime(s.sim.Pid()) + time.Duration(self.Nano())})
}

// quiet reports whether other programs used at most their share of the processors around a time.
func (w watched) quiet(at time.Time, share float64) bool {
	i := slices.IndexFunc(w, func(x struct {
		at        time.Time
		all, ours time.Duration
	},
	) bool {
		return x.at.After(at)
	})
	if i <= 0 {
		return false
	}
	a, b := &w[i-1], &w[i]
	rest := (b.all - a.all) - (b.ours - a.ours)
	return rest.Seconds() <= share*float64(runtime.NumCPU())*b.at.Sub(a.at).Seconds()
}

// machineTime is how long the processors have run programs, in steps of 10 ms. Programs of low
// priority do not count: they run when the others wait.
func machineTime() (sum time.Duration) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	var user, low, system, idle, wait, irq, soft, steal int
	if _, err := fmt.Sscan(strings.TrimPrefix(string(text), "cpu "), &user, &low, &system, &idle, &wait, &irq, &soft, &steal); err != nil {
		return 0
	}
	return time.Duration(user+system+irq+soft+steal) * 10 * time.Millisecond
}

func (s *stampeded) stop() {
	testbed.Kill(s.sm, s.sim)
	if s.relay != nil {
		_ = s.relay.end()
	}
}

// start brings the subnet up.
func (s *stampeded) start(b *testbed.Testbed) (err error) {
	var name string
	if s.sim, name, err = b.Simulate("heddle sim", s.net); err != nil {
		return err
	}
	if s.relay, err = startRelay(name+relaySuffix, name); err != nil {
		return err
	}
	sock := filepath.Join(b.Dir, name+".api")
	if s.sm, err = testbed.Launch(b.Dir, nil, s.bin, "sm", "--port", "ibsim:@"+name+relaySuffix, "--api", "", "--api-socket", sock, "--signal", "wildcard"); err != nil {
		return err
	}
	s.api = testbed.UnixClient(sock, 20*time.Second)
	if _, err = s.sm.Await("SUBNET UP", b.Limit); err != nil {
		return err
	}
	return s.learn()
}

// learn takes the hosts' LIDs from the manager.
func (s *stampeded) learn() error {
	resp, err := s.api.Get("http://localhost/v1/nodes")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var nodes []struct {
		Type, Path, Description string
		LID                     ib.LID
	}
	if err := json.NewDecoder(resp.Body).Decode(&nodes); err != nil {
		return err
	}
	s.switches = map[string]bool{}
	var hosts, quiet []ib.LID
	var manager ib.LID
	for _, n := range nodes {
		switch {
		case n.Path == "0":
			manager = n.LID
		case strings.EqualFold(n.Type, "switch"):
			quiet = append(quiet, n.LID)
			s.switches[n.Description] = true
		default:
			hosts = append(hosts, n.LID)
		}
	}
	if manager == 0 || len(hosts) == 0 || len(quiet) == 0 {
		return fmt.Errorf("the manager reports %d hosts and %d switches, and is LID %d", len(hosts), len(quiet), manager)
	}
	s.crowd = newCrowd(hosts, quiet, manager)
	if s.crowd.ignoring, err = other(ignores); err != nil {
		return err
	}
	if s.crowd.echo, err = other(echoes); err != nil {
		return err
	}
	return s.subscribe()
}

// other starts a thread that takes datagrams, and returns the socket to send them to.
func other(take func(fd int, in *rawibsim.Burst, n int) error) (int, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	_ = unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, portQueue/2)
	in := &rawibsim.Burst{}
	in.Init()
	go func() {
		runtime.LockOSThread()
		for {
			n, err := in.Receive(pair[1], portBatch)
			if err != nil || n == 0 || take(pair[1], in, n) != nil {
				return
			}
		}
	}()
	return pair[0], nil
}

// portBatch is how many datagrams the manager's port takes with one call.
const portBatch = 16

// ignores takes no notice of requests.
func ignores(int, *rawibsim.Burst, int) error { return nil }

// echoes returns requests as their answers. It does what any manager must: one receive and one
// send for each, in the order of arrival.
func echoes(fd int, requests *rawibsim.Burst, n int) error {
	for i := range n {
		b := &requests.Buf[i]
		var from, to [2]byte
		copy(from[:], b[4:6])
		copy(to[:], b[0:2])
		copy(b[0:2], from[:])
		copy(b[4:6], to[:])
		m := (*ib.MAD)(b[rawibsim.OffMAD:])
		m.SetMethod(m.Method() | ib.MethodResponseBit)
	}
	_, err := requests.Send(fd, n)
	return err
}

// subscribe has all hosts subscribe to Reports of changed paths.
func (s *stampeded) subscribe() error {
	_, err := s.run(&phase{subscribe: true})
	if err != nil {
		return err
	}
	resp, err := s.api.Get("http://localhost/v1/links")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	type end struct {
		Description string
		Port        int
	}
	var links []struct{ A, B end }
	if err := json.NewDecoder(resp.Body).Decode(&links); err != nil {
		return err
	}
	for _, l := range links {
		if s.switches[l.A.Description] && s.switches[l.B.Description] {
			s.cables = append(s.cables, fmt.Sprintf("%q[%d]", l.A.Description, l.A.Port))
		}
	}
	return nil
}

// cut unplugs a cable between switches, each time another one: one that comes and goes is damped.
func (s *stampeded) cut() error {
	if len(s.cables) == 0 {
		return errors.New("no cable between switches is left")
	}
	i := len(s.cables) * 5 / 7 // not all of one switch
	_, err := fmt.Fprintln(s.sim.In, "unlink", s.cables[i])
	s.cables = slices.Delete(s.cables, i, i+1)
	return err
}
