package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heddle/api"
	apimetrics "heddle/api/metrics"
	"heddle/congestion"
	"heddle/daemon"
	"heddle/fabric/cabling"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/internal/fabrictest"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/perf"
	"heddle/route/engine/auto"
	"heddle/sa"
	"heddle/sim"
	"heddle/sim/live"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
	"heddle/transport/rmpp"
)

// rig is a daemon on a simulated fabric in real time.
type rig struct {
	t    *testing.T
	sim  *live.Driver
	d    *daemon.Daemon
	port *live.Port
	up   chan *subnet.Snapshot
	news chan struct{} // holds something when there is a new snapshot
	end  chan error
}

func newRig(t *testing.T, once bool, kind string, params ...string) *rig {
	t.Helper()
	return newRigOver(t, once, func(p mad.Transport) mad.Transport { return p }, kind, params...)
}

// newRigOver is newRig with something between port and daemon.
func newRigOver(t *testing.T, once bool, over func(mad.Transport) mad.Transport, kind string, params ...string) *rig {
	t.Helper()
	return newRigWith(t, func(c *daemon.Config) { c.Once, c.Port = once, over(c.Port) }, kind, params...)
}

// newRigWith lets change the configuration.
func newRigWith(t *testing.T, change func(*daemon.Config), kind string, params ...string) *rig {
	t.Helper()
	f, err := fabrictest.Generate(kind, params, 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sim.New(f, sim.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, sim: live.New(s), up: make(chan *subnet.Snapshot, 16), news: make(chan struct{}, 1), end: make(chan error, 1)}
	t.Cleanup(r.sim.Close)
	port, err := r.sim.Port("")
	if err != nil {
		t.Fatal(err)
	}
	r.port = port
	t.Cleanup(func() { port.Close() })
	core := sm.Defaults()
	core.Engines, core.MaxWindow = auto.Engines(), port.MaxInFlight()
	cfg := daemon.Config{
		Port: port, PortName: "test", Core: core, Registry: sa.Defaults(), Store: store.NewMemory(),
		OnUp: func(s *subnet.Snapshot) { r.up <- s },
		OnPublish: func(*subnet.Snapshot) {
			select {
			case r.news <- struct{}{}:
			default:
			}
		},
	}
	change(&cfg)
	r.d = daemon.New(cfg)
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
		select {
		case s := <-r.up: // both had happened, and select took this one
			r.end <- err
			return s
		default:
		}
		close(r.end)
		r.t.Fatalf("Run ended before the subnet was up: %v", err)
	case <-time.After(need.Patience):
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
	if st.Engine != "ftree" || st.LastSweep.BlocksSent != 6 || st.LID != int(snap.LID) {
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
	r.d.FlushEvents()
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
		case <-time.After(need.Patience):
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
	case <-time.After(need.Patience):
		t.Error("Run goes on without its port")
	}
	close(r.end)
}

// TestJoinReachesTheSwitches: a host that joins a group gets its answer, the manager routes the
// group, and metrics count it.
func TestJoinReachesTheSwitches(t *testing.T) {
	r := newRig(t, false, "xgft", "2", "4,4", "1,2")
	snap := r.awaitUp()
	for i, host := range []string{"host-2", "host-9"} { // on different leaves
		a := r.asker(host, snap.LID)
		var m ib.MAD
		wire.New(&m, ib.MethodSet, wire.AttrMCMemberRecord, 0, wire.MCMemberCompMGID|wire.MCMemberCompPortGID|wire.MCMemberCompJoinState|
			wire.MCMemberCompQKey|wire.MCMemberCompTClass|wire.MCMemberCompPKey|wire.MCMemberCompSL|wire.MCMemberCompFlowLabel)
		rec := wire.MCMemberRecord{
			MGID: ib.MakeGID(0xFF12_A01C_0000_0000, 1), PortGID: ib.MakeGID(snap.Prefix, a.port.PortGUID()),
			QKey: 0x0B1B, PKey: ib.PKeyDefaultFull, JoinState: 1,
		}
		rec.Put(wire.Data(&m))
		if st := a.ask(&m); st != 0 {
			t.Fatalf("join %d: status %v", i, st)
		}
	}
	limit := time.After(need.Patience)
	for {
		switches := 0
		s := r.d.Snapshot()
		for i := range s.Nodes {
			for _, b := range s.MFTBlocks(int32(i)) {
				if *b.Masks != (smp.MFT{}) {
					switches++
				}
			}
		}
		if switches == 3 { // two leaves and one above them
			break
		}
		select {
		case <-r.news:
		case <-limit:
			t.Fatalf("%d switches have the group, want 3", switches)
		}
	}
	text := metrics(t, r.d)
	for _, want := range []string{
		`heddle_sa_groups 2`, `heddle_sa_group_members 2`, `heddle_sa_answers_total{attribute="MCMemberRecord"} 2`,
		`heddle_sa_requests_total{attribute="MCMemberRecord",method="Set"} 2`, `heddle_sa_answer_seconds_count{attribute="MCMemberRecord"} 2`,
		`heddle_sa_batch_requests_sum 2`, `heddle_sa_persist_seconds_count 3`, `heddle_sa_busy_total{reason="requester"} 0`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}

// metrics are the values of one scrape.
func metrics(t *testing.T, d *daemon.Daemon) string {
	t.Helper()
	srv := httptest.NewServer(api.New(d, api.Options{Metrics: d.Metrics()}))
	defer srv.Close()
	resp, err := http.Get(srv.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestMetricsAreDocumented holds docs/metrics.md to a scrape, both ways.
func TestMetricsAreDocumented(t *testing.T) {
	counters := perf.Defaults()
	r := newRigWith(t, func(c *daemon.Config) {
		c.Port, c.Perf, c.Congestion = rmpp.Over(c.Port), &counters, congestion.Defaults()
		c.Cabling = &daemon.CablingPlan{Name: "plan", Plan: &cabling.Plan{}}
	}, "xgft", "1", "4", "1")
	snap := r.awaitUp()
	for {
		_, more := r.d.Events(math.MaxUint64)
		if r.d.Cabling().Compared != nil { // what the plan does not have are findings, and so events
			break
		}
		select {
		case <-more:
		case <-time.After(need.Patience):
			t.Fatal("the cables are not compared")
		}
	}
	a := r.asker("host-2", snap.LID)
	var m ib.MAD
	wire.New(&m, ib.MethodGet, wire.AttrClassPortInfo, 0, 0)
	a.ask(&m)
	if out, err := r.d.Operate(t.Context(), []api.VMOperation{{Op: "create", Name: "web"}}); err != nil || out[0].Err != nil {
		t.Fatal(out, err)
	}
	served := map[string]bool{}
	for line := range strings.Lines(metrics(t, r.d)) {
		if f := strings.Fields(line); len(f) > 2 && f[1] == "TYPE" && strings.HasPrefix(f[2], "heddle_") {
			served[f[2]] = true
		}
	}
	pair := apimetrics.NewHA(func() apimetrics.HA {
		return apimetrics.HA{
			States: []string{"paired"}, PeerUp: map[string]bool{"stream": true}, Takeovers: []apimetrics.Count{{Labels: []string{"silence"}}},
			RelayDropped: []apimetrics.Count{{Labels: []string{"late"}}},
		}
	})
	quorum := apimetrics.NewHA(func() apimetrics.HA { return apimetrics.HA{Shared: &apimetrics.Shared{}} })
	outputs := apimetrics.NewOutputs(func() apimetrics.Outputs {
		return apimetrics.Outputs{Webhooks: []apimetrics.Webhook{{Name: "chat"}}, Partner: &apimetrics.Partner{}, Syslog: &apimetrics.Syslog{}}
	})
	for _, g := range []prometheus.Gatherer{pair, quorum, outputs} {
		families, err := g.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			served[f.GetName()] = true
		}
	}
	doc, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, name := range regexp.MustCompile("(?m)^\\| `(heddle_[a-z_]+)`").FindAllSubmatch(doc, -1) {
		told[string(name[1])] = true
	}
	for name := range served {
		if !told[name] {
			t.Errorf("docs/metrics.md does not have %s", name)
		}
	}
	for name := range told {
		if !served[name] {
			t.Errorf("%s of docs/metrics.md is not served", name)
		}
	}
}
