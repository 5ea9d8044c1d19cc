package process_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"heddle/api"
	"heddle/daemon"
	"heddle/daemon/eventlog"
	"heddle/daemon/process"
	"heddle/internal/fabrictest"
	"heddle/mad"
	"heddle/route/engine/auto"
	"heddle/sa"
	"heddle/sim"
	"heddle/sim/live"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
)

// office is an Authority for tests: the test gives mandates and ends them.
type office struct {
	process.Single
	give chan *process.Mandate
	held chan *process.Mandate // ended ones
	ha   api.HA
	left chan struct{}
	// stuck is what Turns returns.
	stuck error
}

func (o *office) Await(ctx context.Context) (*process.Mandate, error) {
	select {
	case m := <-o.give:
		return m, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (o *office) Ended(m *process.Mandate, err error) (bool, error) {
	o.held <- m
	if errors.Is(err, daemon.ErrRevoked) {
		return true, nil
	}
	return false, err
}

func (o *office) Leave(context.Context)        { close(o.left) }
func (o *office) Turns(context.Context) error  { return o.stuck }
func (o *office) HA() api.HA                   { return o.ha }
func (o *office) Ready() (bool, string)        { return true, "standby, paired" }
func (o *office) Metrics() prometheus.Gatherer { return nil }

var errCut = errors.New("cut")

// cuttable is a port that can be taken from its manager.
type cuttable struct {
	mad.Transport
	cut  chan struct{}
	once sync.Once
}

func (c *cuttable) end() {
	c.once.Do(func() {
		close(c.cut)
		c.Transport.Close() // ends Recv
	})
}

func (c *cuttable) Recv(p *mad.Packet) error {
	err := c.Transport.Recv(p)
	select {
	case <-c.cut:
		return errCut
	default:
	}
	return err
}

func (c *cuttable) Send(p *mad.Packet) error {
	select {
	case <-c.cut:
		return errCut
	default:
	}
	return c.Transport.Send(p)
}

type rig struct {
	t   *testing.T
	sim *live.Driver
	o   *office
	p   *process.Process
	srv *httptest.Server
	up  chan *subnet.Snapshot
	end chan error

	events *eventlog.Log
}

func newRig(t *testing.T) *rig {
	f, err := fabrictest.Generate("xgft", []string{"1", "4", "1"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sim.New(f, sim.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, sim: live.New(s), up: make(chan *subnet.Snapshot, 8), end: make(chan error, 1)}
	t.Cleanup(r.sim.Close)
	r.o = &office{give: make(chan *process.Mandate), held: make(chan *process.Mandate, 8), left: make(chan struct{})}
	r.o.State = store.NewMemory()
	r.o.ha = api.HA{Mode: "pair", State: "copying", ActiveAt: "other.example", Pair: &api.Pair{PortGUID: "0x1", LID: 9, PeerGUID: "0x2", PeerActive: true}}
	r.events = eventlog.New()
	r.p = process.New(process.Config{Authority: r.o, PortName: "test", Events: r.events, New: func(m *process.Mandate, events *eventlog.Log) (*daemon.Daemon, error) {
		core, registry := sm.Defaults(), sa.Defaults()
		core.Engines, core.MaxWindow = auto.Engines(), m.Port.MaxInFlight()
		m.Configure(&core, &registry)
		return daemon.New(daemon.Config{
			Port: m.Port, PortName: "test", Core: core, Registry: registry, Store: m.Store, Revoked: m.Revoked, Events: events,
			OnUp: func(s *subnet.Snapshot) { r.up <- s },
		}), nil
	}})
	r.srv = httptest.NewServer(r.p.Handler(api.Options{Token: "secret"}))
	t.Cleanup(r.srv.Close)
	return r
}

// mandate gives the process a port of the simulated subnet.
func (r *rig) mandate() (*process.Mandate, *cuttable) {
	r.t.Helper()
	port, err := r.sim.Port("")
	if err != nil {
		r.t.Fatal(err)
	}
	c := &cuttable{Transport: port, cut: make(chan struct{})}
	return &process.Mandate{
		Port: c, Revoked: errCut, Store: r.o.State,
		Configure: func(c *sm.Config, _ *sa.Config) { c.Granted = true },
	}, c
}

func (r *rig) ask(method, path string) (int, string) {
	r.t.Helper()
	req, err := http.NewRequest(method, r.srv.URL+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer secret")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// TestPhases: the API lives on standby and while a manager runs; a mandate that ends stops the
// manager at once, which leaves IsSM as it is; the next one begins from the same state.
func TestPhases(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { r.end <- r.p.Run(ctx) }()

	standby := func() {
		t.Helper()
		if code, text := r.ask("GET", "/readyz"); code != 200 || !strings.Contains(text, "standby") {
			t.Errorf("/readyz on standby: %d %s", code, text)
		}
		for _, x := range [][2]string{{"GET", "/v1/nodes"}, {"POST", "/v1/sweep"}, {"PUT", "/v1/partitions"}} {
			if code, text := r.ask(x[0], x[1]); code != 503 || !strings.Contains(text, "the active one is at other.example") {
				t.Errorf("%v on standby: %d %s", x, code, text)
			}
		}
		code, text := r.ask("GET", "/v1/status")
		var st api.Status
		if err := json.Unmarshal([]byte(text), &st); code != 200 || err != nil || st.State != "STANDBY" || st.Master != "0x2" || st.LID != 9 || st.ActiveAt != "other.example" {
			t.Errorf("status on standby: %d %s", code, text)
		}
		for path, want := range map[string]string{"/metrics": "heddle_build_info", "/healthz": "ok", "/": "Heddle", "/v1/ha": `"active":false`, "/v1/events": "[", "/v1/backup": "crc32c"} {
			if code, text := r.ask("GET", path); code != 200 || !strings.Contains(text, want) {
				t.Errorf("%s on standby: %d %.200s", path, code, text)
			}
		}
		if err := r.p.Memberships().Master(); err == nil || !strings.Contains(err.Error(), "other.example") {
			t.Errorf("UFM calls on standby: %v", err)
		}
	}
	standby()
	var lids [2]map[string]int
	events := 0
	for i := range lids {
		m, c := r.mandate()
		r.o.give <- m
		snap := <-r.up
		lids[i] = map[string]int{}
		for k := range snap.Ports {
			lids[i][snap.Ports[k].GUID.String()] = int(snap.Ports[k].LID)
		}
		for path, want := range map[string]string{"/metrics": "heddle_subnet_up 1", "/healthz": "ok", "/readyz": "subnet up", "/v1/ha": `"active":true`, "/v1/nodes": "guid"} {
			if code, text := r.ask("GET", path); code != 200 || !strings.Contains(text, want) {
				t.Errorf("%s of a manager: %d %.200s", path, code, text)
			}
		}
		if err := r.p.Memberships().Master(); err != nil {
			t.Error(err)
		}
		c.end()
		if ended := <-r.o.held; ended != m {
			t.Error("another mandate ended")
		}
		standby()
		r.events.Flush()
		list, _ := r.p.Events(0)
		if len(list) <= events || list[len(list)-1].Seq < uint64(len(list)) {
			t.Errorf("%d events after mandate %d, %d before", len(list), i, events)
		}
		events = len(list)
	}
	for g, l := range lids[0] {
		if lids[1][g] != l {
			t.Errorf("port %s had LID %d, and has %d", g, l, lids[1][g])
		}
	}
	cancel()
	<-r.o.left
	if err := <-r.end; err != nil {
		t.Errorf("Run: %v", err)
	}
}

// TestStuckAuthority: a process on standby is not healthy if the authority's loop does not turn.
func TestStuckAuthority(t *testing.T) {
	r := newRig(t)
	if code, text := r.ask("GET", "/healthz"); code != 200 {
		t.Errorf("/healthz: %d %s", code, text)
	}
	r.o.stuck = errors.New("the loop does not turn")
	if code, text := r.ask("GET", "/healthz"); code != 503 || !strings.Contains(text, "does not turn") {
		t.Errorf("/healthz without a loop that turns: %d %s", code, text)
	}
}

// TestSingleEndsWithItsManager: errors of a manager end the process, unless it is to go on.
func TestSingleEndsWithItsManager(t *testing.T) {
	bad := errors.New("bad")
	for _, again := range []int{0, 2} {
		opened := 0
		s := &process.Single{
			Open: func(context.Context) (mad.Transport, error) {
				opened++
				return mad.Transport(nopPort{}), nil
			},
			Again: func(err error) bool { return errors.Is(err, bad) && opened <= again },
			State: store.NewMemory(),
		}
		p := process.New(process.Config{Authority: s, New: func(*process.Mandate, *eventlog.Log) (*daemon.Daemon, error) { return nil, bad }})
		if err := p.Run(t.Context()); !errors.Is(err, bad) || opened != again+1 {
			t.Errorf("again %d: %v after %d openings", again, err, opened)
		}
		if err := p.Handover(t.Context()); !errors.Is(err, api.ErrNoPair) {
			t.Error(err)
		}
	}
}

type nopPort struct{ mad.Transport }

func (nopPort) Close() error { return nil }
