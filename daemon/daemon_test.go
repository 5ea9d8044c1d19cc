package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"heddle/api"
	"heddle/daemon"
	"heddle/fabric"
	"heddle/mad"
	"heddle/route"
	"heddle/route/engine/minhop"
	"heddle/route/engine/updn"
	"heddle/sim"
	"heddle/sim/live"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
)

// rig is a daemon on a simulated fabric in real time.
type rig struct {
	t    *testing.T
	sim  *live.Driver
	d    *daemon.Daemon
	port *live.Port
	up   chan *subnet.Snapshot
	end  chan error
}

func newRig(t *testing.T, once bool, kind string, params ...string) *rig {
	t.Helper()
	return newRigOver(t, once, func(p mad.Transport) mad.Transport { return p }, kind, params...)
}

// newRigOver is newRig with something between port and daemon.
func newRigOver(t *testing.T, once bool, over func(mad.Transport) mad.Transport, kind string, params ...string) *rig {
	t.Helper()
	f, err := fabric.Generate(kind, params, 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sim.New(f, sim.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, sim: live.New(s), up: make(chan *subnet.Snapshot, 16), end: make(chan error, 1)}
	t.Cleanup(r.sim.Close)
	port, err := r.sim.Port("")
	if err != nil {
		t.Fatal(err)
	}
	r.port = port
	t.Cleanup(func() { port.Close() })
	core := sm.Config{Engines: []route.Engine{minhop.Engine{}, updn.Engine{}}, SMKey: 1, MaxWindow: port.MaxInFlight()}
	r.d = daemon.New(daemon.Config{
		Port: over(port), PortName: "test", Core: core, Store: store.NewMemory(), Once: once,
		OnUp: func(s *subnet.Snapshot) { r.up <- s },
	})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { r.end <- r.d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err, ok := <-r.end; ok && err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return r
}

func (r *rig) awaitUp() *subnet.Snapshot {
	r.t.Helper()
	select {
	case s := <-r.up:
		return s
	case err := <-r.end:
		close(r.end)
		r.t.Fatalf("Run ended before the subnet was up: %v", err)
	case <-time.After(30 * time.Second):
		r.t.Fatalf("the subnet is not up: %+v", r.d.Status())
	}
	return nil
}

func get[T any](t *testing.T, url string) (v T) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s", url, resp.Status)
	}
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil {
		t.Fatalf("GET %s: %v", url, err)
	}
	return v
}

func TestAPIOfARunningManager(t *testing.T) {
	r := newRig(t, false, "xgft", "2", "4,4", "1,2")
	srv := httptest.NewServer(api.New(r.d, api.Options{Token: "secret", Metrics: r.d.Metrics()}))
	defer srv.Close()
	snap := r.awaitUp()

	st := get[api.Status](t, srv.URL+"/v1/status")
	if st.State != "MASTER" || !st.SubnetUp || st.Switches != 6 || st.CAs != 16 || st.Links != 24 || st.LinksActive != 24 || st.LIDs != 22 {
		t.Errorf("status %+v", st)
	}
	if st.Engine != "minhop" || st.LastSweep.BlocksSent != 6 || st.LID != int(snap.LID) {
		t.Errorf("status %+v", st)
	}
	nodes := get[[]api.Node](t, srv.URL+"/v1/nodes")
	seen := map[int]bool{}
	for _, n := range nodes {
		if n.LID == 0 || seen[n.LID] || n.State != "ok" {
			t.Errorf("node %+v", n)
		}
		seen[n.LID] = true
	}
	if len(nodes) != 22 {
		t.Errorf("%d nodes, want 22", len(nodes))
	}
	for _, l := range get[[]api.Link](t, srv.URL+"/v1/links") {
		if l.State != "active" || l.A.GUID == l.B.GUID {
			t.Errorf("link %+v", l)
		}
	}
	d := get[api.Drawing](t, srv.URL+"/v1/drawing")
	if len(d.Levels) != 2 || len(d.Levels[0]) != 4 || len(d.Levels[1]) != 2 || len(d.Links) != 8 || d.Levels[0][0].Hosts != 4 || d.Levels[0][0].Up != 4 {
		t.Errorf("drawing %+v", d)
	}
	ev := get[[]api.Event](t, srv.URL+"/v1/events")
	if len(ev) == 0 || ev[len(ev)-1].Seq < uint64(len(ev)) {
		t.Errorf("events %+v", ev)
	}

	resp, err := http.Get(srv.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	for _, want := range []string{
		`heddle_nodes{type="switch"} 6`, `heddle_sm_state{state="MASTER"} 1`, `heddle_subnet_up 1`, `heddle_lids 22`,
		`heddle_links{state="active"} 24`, `heddle_smps_sent_total{attribute="NodeInfo"}`, `heddle_sweep_phase_seconds_count{phase="discover"}`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if resp, err := http.Get(srv.URL + "/readyz"); err != nil || resp.StatusCode != 200 {
		t.Errorf("/readyz: %v %v", resp, err)
	}
}

// TestSweepNeedsTheToken: writing without it, from a foreign page or under a
// foreign name is refused.
func TestSweepNeedsTheToken(t *testing.T) {
	r := newRig(t, false, "xgft", "1", "4", "1")
	srv := httptest.NewServer(api.New(r.d, api.Options{Token: "secret"}))
	defer srv.Close()
	r.awaitUp()
	before := r.d.Status().Sweeps
	for _, c := range []struct {
		name   string
		header map[string]string
		host   string
		want   int
	}{
		{"no token", nil, "", http.StatusUnauthorized},
		{"wrong token", map[string]string{"Authorization": "Bearer wrong"}, "", http.StatusUnauthorized},
		{"foreign page", map[string]string{"Authorization": "Bearer secret", "Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}, "", http.StatusForbidden},
		{"foreign name", map[string]string{"Authorization": "Bearer secret"}, "evil.example", http.StatusForbidden},
		{"token", map[string]string{"Authorization": "Bearer secret"}, "", http.StatusAccepted},
	} {
		req, _ := http.NewRequest(http.MethodPost, srv.URL+"/v1/sweep", nil)
		for k, v := range c.header {
			req.Header.Set(k, v)
		}
		if c.host != "" {
			req.Host = c.host
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s: %s, want %d", c.name, resp.Status, c.want)
		}
	}
	// The accepted sweep finds nothing to do and ends like any other.
	for {
		events, more := r.d.Events(0)
		n := 0
		for _, e := range events {
			if e.Kind == "sweep_end" {
				n++
			}
		}
		if n > int(before) {
			return
		}
		select {
		case <-more:
		case <-time.After(20 * time.Second):
			t.Fatal("the sweep never ended")
		}
	}
}

func TestOnceLetsGo(t *testing.T) {
	r := newRig(t, true, "irregular", "8")
	r.awaitUp()
	if err := <-r.end; err != nil {
		t.Errorf("Run: %v", err)
	}
	close(r.end)
	r.sim.Do(func(s *sim.Subnet) {
		e, err := s.Attach("")
		if err != nil {
			t.Error(err)
			return
		}
		defer e.Close()
		if pi := e.PortInfo(); pi.CapabilityMask&2 != 0 || pi.PortState != 4 {
			t.Errorf("after --once the port has IsSM %v and is %v", pi.CapabilityMask&2 != 0, pi.PortState)
		}
	})
}

func TestPortLost(t *testing.T) {
	r := newRig(t, false, "xgft", "1", "4", "1")
	r.awaitUp()
	r.port.Close()
	select {
	case err := <-r.end:
		if !errors.Is(err, daemon.ErrPortLost) {
			t.Errorf("Run ended with %v, want ErrPortLost", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("Run goes on without its port")
	}
	close(r.end)
}
