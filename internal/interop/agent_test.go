package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"heddle/agent/acm"
	"heddle/agent/live"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/internal/need"
)

// acme is the ib_acme of Debian's package ibacm, and the environment in which it runs. The
// package is unpacked and not installed, because installing it starts its service.
func acme(t *testing.T) (path string, env []string) {
	t.Helper()
	if p, err := exec.LookPath("ib_acme"); err == nil {
		return p, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "heddle-ibacm")
	root := filepath.Join(dir, "root")
	path = filepath.Join(root, "usr/bin/ib_acme")
	if _, err := os.Stat(path); err != nil {
		apt, dpkg := need.Tool(t, "apt-get"), need.Tool(t, "dpkg-deb")
		tmp := t.TempDir()
		get := exec.CommandContext(t.Context(), apt, "download", "-o", "APT::Sandbox::User=root", "ibacm", "libibverbs1", "libnl-3-200", "libnl-route-3-200")
		get.Dir = tmp
		if out, err := get.CombinedOutput(); err != nil {
			need.Missing(t, "ib_acme", fmt.Sprintf("apt-get download ibacm: %v: %s", err, out))
		}
		debs, _ := filepath.Glob(filepath.Join(tmp, "*.deb"))
		fresh := filepath.Join(tmp, "root")
		for _, d := range debs {
			if out, err := exec.CommandContext(t.Context(), dpkg, "-x", d, fresh).CombinedOutput(); err != nil {
				t.Fatalf("dpkg-deb -x %s: %v: %s", d, err, out)
			}
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		// Whole, or not at all: a run that is killed leaves nothing that the next one would take.
		part, err := os.MkdirTemp(dir, "part")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(part)
		if out, err := exec.CommandContext(t.Context(), "cp", "-r", fresh, part).CombinedOutput(); err != nil {
			t.Fatalf("cp: %v: %s", err, out)
		}
		_ = os.RemoveAll(root)
		if err := os.Rename(filepath.Join(part, "root"), root); err != nil && !os.IsExist(err) && !errors.Is(err, syscall.ENOTEMPTY) {
			t.Fatal(err)
		}
	}
	libs, _ := filepath.Glob(filepath.Join(root, "*/lib/*-linux-gnu"))
	more, _ := filepath.Glob(filepath.Join(root, "lib/*-linux-gnu"))
	return path, []string{"LD_LIBRARY_PATH=" + strings.Join(append(libs, more...), ":")}
}

// agentBed is a simulated subnet with a manager that permits caching, and an agent on a host.
type agentBed struct {
	t      *testing.T
	b      built
	sock   string // of the simulator
	sim    program
	sm     program
	agent  program
	answer string // --wait of the agent
	acm    string // sockets of the agent
	ctl    string
	hosts  string // file of addresses

	ibacme string
	env    []string
}

// newAgentBed starts an agent whose programs wait at most so long for their answers, a minute at most.
func newAgentBed(t *testing.T, answer time.Duration) *agentBed {
	need.FUSE(t)
	a := &agentBed{t: t, answer: answer.String(), b: testNet{name: "small", gen: []string{"xgft", "2", "4,4", "1,2"}}.build(t)}
	a.ibacme, a.env = acme(t)
	sim, env := a.b.simulate(t)
	a.sim, a.sock = sim, strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
	a.startManager()
	dir := t.TempDir()
	a.acm, a.ctl, a.hosts = filepath.Join(dir, "acm.sock"), filepath.Join(dir, "ctl.sock"), filepath.Join(dir, "hosts")
	var text strings.Builder
	for i := range a.b.cas {
		fmt.Fprintf(&text, "10.0.0.%d %v\nnode-%d %v\n", i, a.gid(i), i, a.gid(i))
	}
	if err := os.WriteFile(a.hosts, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	a.startAgent()
	return a
}

// gid is the GID of the only port of a host.
func (a *agentBed) gid(i int) ib.GID {
	for n := range a.b.fab.Nodes {
		if x := &a.b.fab.Nodes[n]; x.ID == a.b.cas[i] {
			return ib.MakeGID(ib.DefaultSubnetPrefix, x.Ports[1].GUID)
		}
	}
	a.t.Fatalf("no host %d", i)
	return ib.GID{}
}

// The manager and the agent are on these hosts.
const managerHost, agentHost = 0, 2

func (a *agentBed) startManager() {
	a.sm = start(a.t, a.b.dir, nil, heddle, "attach", a.b.cas[managerHost]+"@"+a.sock, "--", heddle, "sm", "--port", "umad:heddle0/1",
		"--api", "", "--subnet-supports-sa-path-caching", "--state", filepath.Join(a.b.dir, "state"))
	a.sm.await("SUBNET UP\n", 0, upTime)
}

func (a *agentBed) startAgent() {
	a.agent = start(a.t, a.b.dir, nil, heddle, "attach", a.b.cas[agentHost]+"@"+a.sock, "--", heddle, "agent",
		"--acm", a.acm, "--control", a.ctl, "--addresses", a.hosts, "--netlink", "off", "--wait", a.answer)
	a.agent.await("AGENT READY", 0, upTime)
	a.wait("subscriptions", func(s *live.Status) bool { return s.Ports[0].Subscribed })
}

// status is what heddle agent show prints.
func (a *agentBed) status() (s live.Status) {
	a.t.Helper()
	out := must(a.t, upTime, a.b.dir, nil, heddle, "agent", "show", "--json", "--control", a.ctl)
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		a.t.Fatal(err)
	}
	return s
}

// wait asks for the status until it is as wanted.
func (a *agentBed) wait(what string, ok func(s *live.Status) bool) {
	a.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(upTime); ; <-tick.C {
		s := a.status()
		if ok(&s) {
			return
		}
		if time.Now().After(limit) {
			a.t.Fatalf("%s: %+v\n%s", what, s, tail(a.agent.Output()))
		}
	}
}

// acme runs ib_acme.
func (a *agentBed) acme(args ...string) (string, error) {
	return run(a.t, upTime, a.b.dir, a.env, a.ibacme, append([]string{"-S", a.acm}, args...)...)
}

// TestAgentACME: unmodified ib_acme gets its answers from the agent, which has them from the
// SA, in every form that there is.
func TestAgentACME(t *testing.T) {
	a := newAgentBed(t, time.Minute)
	own, other := a.gid(agentHost), a.gid(5)
	lids := map[int]string{}
	for _, i := range []int{agentHost, 5} {
		out := must(t, upTime, a.b.dir, nil, heddle, "attach", a.b.cas[i]+"@"+a.sock, "--", "ibstat")
		m := regexp.MustCompile(`Base lid: (\d+)`).FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("ibstat: %s", out)
		}
		lids[i] = m[1]
	}
	for _, c := range []struct {
		args []string
		want []string
		fail bool
	}{
		{[]string{"-f", "l", "-s", lids[agentHost], "-d", lids[5], "-c"}, []string{"No data available"}, true}, // nothing is cached yet
		{[]string{"-f", "l", "-s", lids[agentHost], "-d", lids[5]}, []string{"dgid: " + other.String(), "sgid: " + own.String(), "reversible: 1"}, false},
		{[]string{"-f", "l", "-s", lids[agentHost], "-d", lids[5], "-c"}, []string{"dgid: " + other.String()}, false},
		{[]string{"-f", "l", "-s", lids[agentHost], "-d", lids[5], "-v"}, []string{"SA verification: success"}, false},
		{[]string{"-f", "g", "-s", own.String(), "-d", other.String()}, []string{"dlid: " + lids[5], "slid: " + lids[agentHost], "flow label: 0x0"}, false},
		{[]string{"-f", "g", "-s", own.String(), "-d", other.String(), "-v"}, []string{"SA verification: success"}, false},
		{[]string{"-f", "i", "-s", "10.0.0.2", "-d", "10.0.0.5"}, []string{"dlid: " + lids[5]}, false},
		{[]string{"-f", "i", "-d", "10.0.0.5"}, []string{"dlid: " + lids[5], "slid: " + lids[agentHost]}, false},
		{[]string{"-f", "n", "-s", "node-2", "-d", "node-5"}, []string{"dlid: " + lids[5]}, false},
		{[]string{"-f", "i", "-s", "10.0.0.2", "-d", "10.9.9.9"}, []string{"No data available"}, true},
		{[]string{"-f", "g", "-s", own.String(), "-d", "fe80::dead"}, []string{"No data available"}, true},
		{[]string{"-e"}, []string{"heddle", own.String(), ",1,0xffff,1,"}, false},
		{[]string{"-P"}, []string{"Route Cache Count"}, false},
		{[]string{"-P", "col"}, []string{"Resolve Count"}, false},
		{[]string{"-P", "all"}, []string{"Resolve Count"}, false}, // counts up until an index is refused
	} {
		out, err := a.acme(c.args...)
		if (err != nil) != c.fail {
			t.Errorf("ib_acme %s: %v\n%s", strings.Join(c.args, " "), err, tail(out))
		}
		for _, w := range c.want {
			if !strings.Contains(out, w) {
				t.Errorf("ib_acme %s does not print %q:\n%s", strings.Join(c.args, " "), w, tail(out))
			}
		}
	}
	before := a.status().Ports[0]
	must(t, upTime, a.b.dir, a.env, a.ibacme, "-S", a.acm, "-f", "l", "-s", lids[agentHost], "-d", lids[5], "-C", "2000")
	after := a.status().Ports[0]
	if after.Queries != before.Queries || after.Answers["found/cache"]-before.Answers["found/cache"] < 2000 {
		t.Errorf("2,000 repetitions: %d queries; answers %v, then %v", after.Queries-before.Queries, before.Answers, after.Answers)
	}
	out := must(t, upTime, a.b.dir, nil, heddle, "agent", "show", "--paths", "--control", a.ctl)
	if !strings.Contains(out, "fresh") || !strings.Contains(out, other.String()) {
		t.Errorf("agent show --paths:\n%s", out)
	}
	if out := must(t, upTime, a.b.dir, nil, heddle, "agent", "flush", other.String(), "--control", a.ctl); !regexp.MustCompile(`[1-9]\d* entries removed`).MatchString(out) {
		t.Errorf("agent flush: %s", out)
	}
	if out, err := a.acme("-f", "l", "-s", lids[agentHost], "-d", lids[5], "-c"); err == nil {
		t.Errorf("the path is still cached:\n%s", out)
	}
	a.checkMetrics()
}

// checkMetrics: the control socket has them in Prometheus' form.
func (a *agentBed) checkMetrics() {
	c := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", a.ctl)
	}}}
	r, err := c.Get("http://agent/metrics")
	if err != nil {
		a.t.Fatal(err)
	}
	defer r.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(r.Body); err != nil {
		a.t.Fatal(err)
	}
	for _, w := range []string{
		`heddle_agent_subscribed{port="heddle0/1"} 1`, `heddle_agent_answers_total{port="heddle0/1",result="found",source="cache"}`,
		`heddle_agent_netlink_served 0`, `heddle_agent_removed_total{port="heddle0/1",reason="flush"}`,
	} {
		if !strings.Contains(b.String(), w) {
			a.t.Errorf("no %s in\n%s", w, tail(b.String()))
		}
	}
}

// TestAgentNotices: when a host leaves the subnet the agent forgets the path to it.
func TestAgentNotices(t *testing.T) {
	a := newAgentBed(t, time.Minute)
	own, other := a.gid(agentHost).String(), a.gid(5).String()
	if out, err := a.acme("-f", "g", "-s", own, "-d", other); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	fmt.Fprintf(a.sim.In, "node down %q\n", a.b.cas[5])
	a.wait("the notice that a host left", func(s *live.Status) bool { return s.Ports[0].Entries == 0 && s.Ports[0].Noticed > 0 })
	if out, err := a.acme("-f", "g", "-s", own, "-d", other); err == nil {
		t.Errorf("a path to a host that left:\n%s", out)
	}
	fmt.Fprintf(a.sim.In, "node up %q\n", a.b.cas[5])
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(upTime); ; <-tick.C {
		out, err := a.acme("-f", "g", "-s", own, "-d", other)
		if err == nil {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("no path to a host that is back: %v\n%s", err, out)
		}
	}
}

// TestAgentFailures: the agent killed under load, the SA silent, and hostile bytes. No program
// waits longer than --wait, 1 s here; a direct query may take longer. Programs that were not given
// the processor take longer too, so the fastest of some counts.
func TestAgentFailures(t *testing.T) {
	a := newAgentBed(t, time.Second)
	own, other, third := a.gid(agentHost).String(), a.gid(5).String(), a.gid(7).String()
	for _, b := range [][]byte{{}, {1}, bytes.Repeat([]byte{0xFF}, 5000), {1, 1, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0}, []byte("GET / HTTP/1.0\r\n\r\n")} {
		c, err := net.Dial("unix", a.acm)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(b)
		if len(b) >= acm.HeaderLen { // a malformed request ends the connection
			_ = c.SetReadDeadline(time.Now().Add(upTime))
			if n, err := c.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
				t.Errorf("% x…: read %d, %v; want the connection closed", b[:8], n, err)
			}
		}
		c.Close()
	}
	a.answers(own, other)

	// Killed under load: who was connected gets an error, and who comes later an answer.
	load := start(t, a.b.dir, a.env, a.ibacme, "-S", a.acm, "-f", "g", "-s", own, "-d", other, "-C", "100000000")
	a.wait("load", func(s *live.Status) bool { return s.Ports[0].Answers["found/cache"] > 1000 })
	a.agent.Kill()
	select {
	case <-load.Done():
	case <-time.After(upTime):
		t.Error("ib_acme still waits for an agent that was killed")
	}
	a.startAgent()
	a.answers(own, other)
	a.killAgain(own, other)

	// The SA is silent: what is cached is served, and the rest is refused in time.
	_ = a.sm.stop(syscall.SIGKILL)
	for _, c := range []struct {
		dst  string
		st   acm.Status
		most time.Duration
	}{{other, acm.OK, time.Second}, {third, acm.TimedOut, 2 * time.Second}} {
		best := upTime
		for n := 0; n < 3 || n < 30 && best > c.most; n++ {
			d, st := a.resolve(c.dst)
			if best = min(best, d); st != c.st {
				t.Errorf("the path to %s without an SA: status %d after %v", c.dst, st, d)
			}
		}
		if best > c.most {
			t.Errorf("the path to %s without an SA: answers take at least %v", c.dst, best)
		}
	}
	a.startManager()
	a.wait("the SA's return", func(s *live.Status) bool { return !s.Ports[0].Silent && s.Ports[0].Subscribed })
	a.answers(own, third)
}

// answers asks for a path until there is an answer: the SA may take longer than --wait.
func (a *agentBed) answers(src, dst string) {
	a.t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(upTime); ; <-tick.C {
		out, err := a.acme("-f", "g", "-s", src, "-d", dst)
		if err == nil {
			return
		}
		if time.Now().After(limit) {
			a.t.Fatalf("no path to %s: %v\n%s\n%+v\n%s", dst, err, out, a.status(), tail(a.agent.Output()))
		}
	}
}

// acmeCall is one run of ib_acme.
type acmeCall struct {
	began time.Time
	took  time.Duration
	ok    bool
}

// callLog collects runs.
type callLog struct {
	mu    sync.Mutex
	calls []acmeCall // guarded by mu
}

func (l *callLog) add(c acmeCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, c)
}

func (l *callLog) has(ok bool, since time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.calls, func(c acmeCall) bool { return c.ok == ok && c.began.After(since) })
}

// killAgain kills and restarts the agent three times under load, while one ib_acme after the
// other asks for a path. Half of those with an answer, and half of those without, are done in the
// time that a direct query may take, 2 s; those without one are refused at once, because nobody
// listens. All end.
func (a *agentBed) killAgain(own, other string) {
	a.t.Helper()
	var log callLog
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
			}
			ctx, cancel := context.WithTimeout(context.Background(), upTime)
			cmd := exec.CommandContext(ctx, a.ibacme, "-S", a.acm, "-f", "g", "-s", own, "-d", other)
			cmd.Env = append(os.Environ(), a.env...)
			began := time.Now()
			out, err := cmd.CombinedOutput()
			log.add(acmeCall{began, time.Since(began), err == nil && bytes.Contains(out, []byte("dlid"))})
			cancel()
		}
	}()
	for range 3 {
		load := start(a.t, a.b.dir, a.env, a.ibacme, "-S", a.acm, "-f", "g", "-s", own, "-d", other, "-C", "100000000")
		a.wait("load", func(s *live.Status) bool { return s.Ports[0].Answers["found/cache"] > 1000 })
		a.agent.Kill()
		killed := time.Now()
		<-load.Done()
		eventually(a.t, "a call that nobody answers", func() bool { return log.has(false, killed) })
		a.startAgent()
		eventually(a.t, "a call with an answer", func() bool { return log.has(true, killed) })
	}
	close(stop)
	<-ended
	took := map[bool][]time.Duration{}
	for _, c := range log.calls {
		took[c.ok] = append(took[c.ok], c.took)
	}
	for ok, list := range took {
		slices.Sort(list)
		median, longest := list[len(list)/2], list[len(list)-1]
		a.t.Logf("three restarts: %d calls with an answer (%v), median %v, longest %v", len(list), ok, median, longest)
		if median > 2*time.Second || longest >= upTime {
			a.t.Errorf("half of the calls (with an answer: %v) took %v and more, one %v", ok, median, longest)
		}
	}
}

// resolve asks the agent for the path to a GID, as librdmacm does.
func (a *agentBed) resolve(dst string) (took time.Duration, st acm.Status) {
	a.t.Helper()
	var g ib.GID
	if err := g.UnmarshalText([]byte(dst)); err != nil {
		a.t.Fatal(err)
	}
	c, err := net.Dial("unix", a.acm)
	if err != nil {
		a.t.Fatal(err)
	}
	defer c.Close()
	e := acm.Endpoint{Type: acm.TypePath}
	r := wire.PathRecord{SGID: a.gid(agentHost), DGID: g}
	r.Put(e.Info[:])
	begin := time.Now()
	if _, err := c.Write(acm.Append(nil, acm.Header{Op: acm.Resolve, TID: 1}, e)); err != nil {
		a.t.Fatal(err)
	}
	b := make([]byte, acm.MaxLen)
	_ = c.SetReadDeadline(begin.Add(upTime))
	n, err := c.Read(b)
	if err != nil || n < acm.HeaderLen {
		a.t.Fatalf("%d bytes, %v", n, err)
	}
	return time.Since(begin), acm.Status(b[2])
}
