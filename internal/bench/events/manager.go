package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"syscall"
	"time"

	"heddle/api"
	"heddle/daemon"
	"heddle/daemon/eventlog"
	"heddle/internal/bench/testbed"
	"heddle/route/engine/auto"
	"heddle/sa"
	"heddle/sm"
	"heddle/store"
	"heddle/store/ring"
	"heddle/subnet"
	"heddle/transport/ibsim"
	"heddle/webhook"
)

// Manager runs the process as the manager under measurement, if its flags say so.
func Manager(o *Options) (ran bool, err error) {
	if o.socket == "" {
		return false, nil
	}
	if o.dir == "" {
		return true, errors.New("-events-manager needs -events-dir")
	}
	return true, o.run()
}

// subject is a manager under measurement, and its simulator.
type subject struct {
	sock         string
	sim, manager *testbed.Program
	control      *http.Client
}

func (m *subject) end() {
	if m.manager != nil {
		m.manager.Stop(testbed.EndSignal)
	}
	m.sim.Stop(syscall.SIGKILL)
}

func startSubject(b *testbed.Testbed, netlist, targets string, batch int) (*subject, error) {
	sim, sock, err := b.Simulate("heddle sim", netlist)
	if err != nil {
		return nil, err
	}
	m := &subject{sock: sock, sim: sim}
	self, err := os.Executable()
	if err != nil {
		return m, err
	}
	dir, err := os.MkdirTemp(b.Dir, "events")
	if err != nil {
		return m, err
	}
	m.control = testbed.UnixClient(filepath.Join(dir, "control"), 20*time.Second)
	if m.manager, err = testbed.Launch(dir, nil, self, "-events-manager", sock, "-events-dir", dir,
		"-events-targets", targets, "-events-batch", strconv.Itoa(batch)); err != nil {
		return m, err
	}
	_, err = m.manager.Await(ready, b.Limit)
	return m, err
}

// status is what the manager under measurement has done.
type status struct {
	Added, Lost uint64
	Waited      float64 // for locks since its start, by all goroutines, seconds
	Adding      float64 // how long Add took, microseconds, the 99.9th percentile
}

// ask sends the manager a command and returns how it stands.
func (m *subject) ask(path string) (st status, err error) {
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

// ready is what the manager under measurement prints when its subnet is up.
const ready = "THE MANAGER IS READY\n"

// run is the process under measurement: the daemon of heddle sm with events on disk, its
// readers, and who adds events.
func (o *Options) run() error {
	runtime.GOMAXPROCS(runtime.NumCPU() + 2) // as heddle sm
	ctx, stop := signal.NotifyContext(context.Background(), testbed.EndSignal)
	defer stop()
	port, err := ibsim.Dial(ctx, ibsim.Options{SockName: o.socket})
	if err != nil {
		return err
	}
	defer port.Close()
	r, err := ring.OpenLimits(filepath.Join(o.dir, "events"), "events", eventlog.Limits())
	if err != nil {
		return err
	}
	events := eventlog.Open(r, "bench")
	defer events.Close()
	if dead, fine, ok := strings.Cut(o.targets, ","); ok {
		secrets := [][]byte{[]byte("a secret of a benchmark, 32 byte")}
		g := webhook.NewGroup(ctx, events, webhook.OpenMarks(filepath.Join(o.dir, "marks"), events.ID()), nil)
		g.Set([]webhook.Target{
			{Name: "dead", URL: dead, Secrets: secrets, Batch: o.batch},
			{Name: "fine", URL: fine, Secrets: secrets, Batch: o.batch},
		})
		defer g.Wait()
	}
	core := sm.Defaults()
	core.Engines, core.MaxWindow = auto.Engines(), port.MaxInFlight()
	adding := &adder{events: events, stop: make(chan struct{})}
	defer adding.set(false)
	l, err := net.Listen("unix", filepath.Join(o.dir, "control"))
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
		OnUp: func(*subnet.Snapshot) { once.Do(func() { fmt.Print(ready) }) },
	}).Run(ctx)
}

// adder adds events while it is on. It serves /on, /off and /stat.
type adder struct {
	events *eventlog.Log

	mu   sync.Mutex
	on   bool          // guarded by mu
	stop chan struct{} // closed when it is to be off; guarded by mu
	done sync.WaitGroup
	took []float64 // by each Add, microseconds; of the goroutine that adds
}

func (a *adder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var st status
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
	const perTick = rate / 100
	tick := time.NewTicker(time.Second / 100)
	defer tick.Stop()
	begin, n := time.Now(), 0
	for {
		select {
		case <-stop:
			return
		case now := <-tick.C:
			for ; n < int(now.Sub(begin)*rate/time.Second)/perTick*perTick; n++ {
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
