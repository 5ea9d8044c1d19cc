package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"heddle/api"
	"heddle/daemon"
	"heddle/flood"
	"heddle/route/engine/auto"
	"heddle/sa"
	"heddle/sm"
	"heddle/store"
	"heddle/store/ring"
	"heddle/subnet"
	"heddle/transport/ibsim"
	"heddle/webhook"
)

var (
	eventTurns   = flag.Int("event-turns", 120, "events: turns with events, of 0.5 s, and as many without, for each load")
	eventSocket  = flag.String("events-manager", "", "events: run as the manager under measurement, at the simulator with this socket name")
	eventDir     = flag.String("events-dir", "", "events: directory of that manager's events and of its control socket")
	eventBatch   = flag.Int("events-batch", 0, "events: most events in one of these webhooks; 0: a request for each")
	eventTargets = flag.String("events-targets", "", "events: where that manager sends webhooks: two addresses, with a comma between")
)

// eventRate is how many events a second there are while there are any.
const eventRate = 1000

// eventCase is a load of the SA, and who reads the events meanwhile.
type eventCase struct {
	webhooks bool // one target takes them, nobody listens at the other
	batch    int  // webhook.Target.Batch
	window   int
}

// readers says who reads the events.
func (c *eventCase) readers() string {
	switch {
	case !c.webhooks:
		return "none"
	case c.batch > 0:
		return "one takes them, one is dead, in batches"
	}
	return "one takes them, one is dead"
}

// events measures what 1,000 events a second cost the SA. Heddle bounds the events that a subnet or
// a client can cause, so the manager under measurement is a process of this program: the same
// daemon, with a goroutine that adds events. Turns without events are between those with events, so
// that other load of the machine affects both: each turn with events has a ratio to the one beside it.
// Two figures depend less on other load: how long the process waited for locks, and how long Add took.
func (b *bench) events(sizes []int) error {
	t := b.table(fmt.Sprintf("PathRecord queries with and without %d events a second", eventRate),
		"hosts", "webhooks", "instances", "turns", "events", "lost", "delivered", "queries/s", "with events", "median", "with events",
		"99 %", "with events", "÷ (median of turns)", "quartiles", "CPU of the manager", "with events",
		"wait for locks in 1 s", "with events", "Add, 99.9 %")
	for _, hosts := range sizes {
		for _, c := range []eventCase{{false, 0, 1}, {false, 0, 16}, {true, 0, 1}, {true, 0, 16}, {true, 1000, 1}, {true, 1000, 16}} {
			if err := b.eventCase(t, hosts, c); err != nil {
				return fmt.Errorf("%d hosts: %w", hosts, err)
			}
		}
	}
	return nil
}

// eventTurn is one measurement; cpu is the share of a processor that the manager had, and waits how
// long its goroutines waited for locks in a second.
type eventTurn struct {
	flood.Figures
	cpu, waits float64
}

func (b *bench) eventCase(t table, hosts int, c eventCase) error {
	netlist, err := b.net(hosts)
	if err != nil {
		return err
	}
	nodes, dst, err := floodable(netlist)
	if err != nil {
		return err
	}
	var addr string
	var got atomic.Uint64
	if c.webhooks {
		var end func()
		if addr, end, err = eventTargetsOf(&got); err != nil {
			return err
		}
		defer end()
	}
	m, err := b.startEventManager(netlist, addr, c.batch)
	if m != nil {
		defer m.end()
	}
	if err != nil {
		return err
	}
	turns := [2][]eventTurn{}
	for k := range 2 * *eventTurns {
		with := (k + k/2) % 2 // off on, on off
		st, err := m.ask([]string{"/off", "/on"}[with])
		if err != nil {
			return err
		}
		begin, used := time.Now(), cpuTime(m.manager.Pid())
		out, err := output(b.dir, nil, b.bin, "flood", "--json", "--dst", dst, "--port", "ibsim:"+nodes[0]+"@"+m.sock,
			"--window", strconv.Itoa(c.window), "--time", "500ms")
		if err != nil {
			return err
		}
		turn := eventTurn{cpu: (cpuTime(m.manager.Pid()) - used).Seconds() / time.Since(begin).Seconds()}
		if err := json.Unmarshal(out, &turn.Figures); err != nil {
			return err
		}
		after, err := m.ask("/stat")
		if err != nil {
			return err
		}
		turn.waits = (after.Waited - st.Waited) / time.Since(begin).Seconds()
		turns[with] = append(turns[with], turn)
	}
	st, err := m.ask("/off")
	if err != nil {
		return err
	}
	of := func(with int, get func(*eventTurn) float64) float64 {
		var v []float64
		for k := range turns[with] {
			v = append(v, get(&turns[with][k]))
		}
		return mid(v)
	}
	var ratios []float64
	for k := range turns[1] {
		ratios = append(ratios, turns[1][k].P99/turns[0][k].P99)
	}
	ratio := mid(ratios) // which sorts them
	qps := func(x *eventTurn) float64 { return x.QPS }
	p50 := func(x *eventTurn) float64 { return x.Median }
	p99 := func(x *eventTurn) float64 { return x.P99 }
	cpu := func(x *eventTurn) float64 { return 100 * x.cpu }
	waits := func(x *eventTurn) float64 { return 1e6 * x.waits }
	t.row("%d|%s|%d|%d|%d|%d|%d|%.0f|%.0f|%s|%s|%s|%s|**%.2f**|%.2f to %.2f|%.0f %%|%.0f %%|%s|%s|%s", hosts, c.readers(), c.window, len(ratios), st.Added, st.Lost, got.Load(),
		of(0, qps), of(1, qps), microseconds(of(0, p50)), microseconds(of(1, p50)), microseconds(of(0, p99)), microseconds(of(1, p99)),
		ratio, ratios[len(ratios)/4], ratios[len(ratios)*3/4], of(0, cpu), of(1, cpu),
		microseconds(of(0, waits)), microseconds(of(1, waits)), microseconds(st.Adding))
	return nil
}

// eventManager is a manager under measurement, and its simulator.
type eventManager struct {
	sock         string
	sim, manager *program
	control      *http.Client
}

func (m *eventManager) end() {
	if m.manager != nil {
		m.manager.stop(endSignal)
	}
	m.sim.stop(syscall.SIGKILL)
}

func (b *bench) startEventManager(netlist, targets string, batch int) (*eventManager, error) {
	sim, sock, err := b.serve("heddle sim", netlist)
	if err != nil {
		return nil, err
	}
	m := &eventManager{sock: sock, sim: sim}
	self, err := os.Executable()
	if err != nil {
		return m, err
	}
	dir, err := os.MkdirTemp(b.dir, "events")
	if err != nil {
		return m, err
	}
	m.control = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", filepath.Join(dir, "control"))
		},
	}}
	if m.manager, err = launch(dir, nil, self, "-events-manager", sock, "-events-dir", dir,
		"-events-targets", targets, "-events-batch", strconv.Itoa(batch)); err != nil {
		return m, err
	}
	_, err = m.manager.await(eventsReady, b.limit)
	return m, err
}

// eventStatus is what the manager under measurement has done.
type eventStatus struct {
	Added, Lost uint64
	Waited      float64 // for locks since its start, by all goroutines, seconds
	Adding      float64 // how long Add took, microseconds, the 99.9th percentile
}

// ask sends the manager a command and returns how it stands.
func (m *eventManager) ask(path string) (st eventStatus, err error) {
	resp, err := m.control.Get("http://localhost" + path)
	if err != nil {
		return st, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return st, fmt.Errorf("GET %s: %s", path, resp.Status)
	}
	return st, json.NewDecoder(resp.Body).Decode(&st)
}

// eventsReady is what the manager under measurement prints when its subnet is up.
const eventsReady = "THE MANAGER IS READY\n"

// runEventManager is the process under measurement: the daemon of heddle sm with events on disk, its
// readers, and who adds events.
func runEventManager() error {
	runtime.GOMAXPROCS(runtime.NumCPU() + 2) // as heddle sm
	ctx, stop := signal.NotifyContext(context.Background(), endSignal)
	defer stop()
	port, err := ibsim.Dial(ctx, ibsim.Options{SockName: *eventSocket})
	if err != nil {
		return err
	}
	defer port.Close()
	r, err := ring.OpenLimits(filepath.Join(*eventDir, "events"), "events", daemon.EventLimits())
	if err != nil {
		return err
	}
	events := daemon.OpenEvents(r, "bench")
	defer events.Close()
	if dead, fine, ok := strings.Cut(*eventTargets, ","); ok {
		secrets := [][]byte{[]byte("a secret of a benchmark, 32 byte")}
		g := webhook.NewGroup(ctx, events, webhook.OpenMarks(filepath.Join(*eventDir, "marks"), events.ID()), nil)
		g.Set([]webhook.Target{
			{Name: "dead", URL: dead, Secrets: secrets, Batch: *eventBatch},
			{Name: "fine", URL: fine, Secrets: secrets, Batch: *eventBatch},
		})
		defer g.Wait()
	}
	core := sm.Defaults()
	core.Engines, core.MaxWindow = auto.Engines(), port.MaxInFlight()
	adding := &adder{events: events, stop: make(chan struct{})}
	defer adding.set(false)
	l, err := net.Listen("unix", filepath.Join(*eventDir, "control"))
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: adding}
	go func() { _ = srv.Serve(l) }() // until Close
	defer srv.Close()
	var once sync.Once
	return daemon.New(daemon.Config{
		Port: port, PortName: "bench", Core: core, Registry: sa.Defaults(), Store: store.NewMemory(), Events: events,
		Cores: runtime.NumCPU(), Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		OnUp: func(*subnet.Snapshot) { once.Do(func() { fmt.Print(eventsReady) }) },
	}).Run(ctx)
}

// eventTargetsOf are two targets of webhooks: nobody listens at the first, and the second counts what
// it takes.
func eventTargetsOf(got *atomic.Uint64) (addr string, end func(), err error) {
	var l [2]net.Listener
	for i := range l {
		if l[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return "", nil, err
		}
	}
	l[0].Close()
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b, err := io.ReadAll(r.Body); err != nil {
			return // it is sent again
		} else if len(b) > 0 && b[0] == '[' {
			got.Add(uint64(bytes.Count(b, []byte(`"specversion":`))))
		} else {
			got.Add(1)
		}
		w.WriteHeader(http.StatusNoContent)
	})}
	go func() { _ = srv.Serve(l[1]) }() // until Close
	return fmt.Sprintf("http://%s,http://%s", l[0].Addr(), l[1].Addr()), func() { srv.Close() }, nil
}

// adder adds events while it is on. It serves /on, /off and /stat.
type adder struct {
	events *daemon.Events

	mu   sync.Mutex
	on   bool          // guarded by mu
	stop chan struct{} // closed when it is to be off; guarded by mu
	done sync.WaitGroup
	took []float64 // by each Add, microseconds; of the goroutine that adds
}

func (a *adder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var st eventStatus
	if r.URL.Path != "/stat" {
		a.set(r.URL.Path == "/on")
	}
	if r.URL.Path == "/off" {
		_, st.Lost = a.events.Health()
		st.Added = uint64(len(a.took))
		if len(a.took) > 0 {
			sorted := slices.Sorted(slices.Values(a.took))
			st.Adding = sorted[len(sorted)*999/1000]
		}
	}
	wait := []metrics.Sample{{Name: "/sync/mutex/wait/total:seconds"}}
	metrics.Read(wait)
	st.Waited = wait[0].Value.Float64()
	_ = json.NewEncoder(w).Encode(st) // an error is the client's
}

// set turns it on or off; off, all that it added is written when set returns.
func (a *adder) set(on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if on == a.on {
		return
	}
	if a.on = on; !on {
		close(a.stop)
		a.done.Wait()
		a.events.Flush()
		return
	}
	a.stop = make(chan struct{})
	stop := a.stop
	a.done.Go(func() { a.run(stop) })
}

// run adds the events of each hundredth of a second together, as a sweep does.
func (a *adder) run(stop <-chan struct{}) {
	const perTick = eventRate / 100
	tick := time.NewTicker(time.Second / 100)
	defer tick.Stop()
	begin, n := time.Now(), 0
	for {
		select {
		case <-stop:
			return
		case now := <-tick.C:
			for ; n < int(now.Sub(begin)*eventRate/time.Second)/perTick*perTick; n++ {
				k := len(a.took)
				e := api.Event{
					Time: now, Level: "info", Kind: "port_counter_" + strconv.Itoa(k%8), Message: "an event of the benchmark, as long as most are",
					Attrs: map[string]string{"node": "node-" + strconv.Itoa(k%648), "node_guid": fmt.Sprintf("0x%016x", k%648), "port": strconv.Itoa(k % 36), "count": strconv.Itoa(k)},
				}
				before := time.Now()
				a.events.Add(e)
				a.took = append(a.took, float64(time.Since(before).Nanoseconds())/1e3)
			}
		}
	}
}

// eventsMode runs the process as the manager under measurement, if its flags say so.
func eventsMode() (ran bool, err error) {
	if *eventSocket == "" {
		return false, nil
	}
	if *eventDir == "" {
		return true, errors.New("-events-manager needs -events-dir")
	}
	return true, runEventManager()
}
