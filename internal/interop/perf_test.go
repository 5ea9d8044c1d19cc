package interop

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"heddle/internal/need"
)

// counted is a 'heddle up' whose counters are read.
type counted struct {
	program
	api, sock, dir string
}

func upCounting(t *testing.T, args ...string) *counted {
	t.Helper()
	dir := t.TempDir()
	u := &counted{api: need.Addr(t), sock: socketName(), dir: dir}
	u.program = start(t, dir, nil, heddle, append([]string{
		"up", "--topo", "mport,4,2", "--perf", "500ms", "--api", u.api, "--socket", u.sock, "--token-file", filepath.Join(dir, "token"),
	}, args...)...)
	u.await("SUBNET UP\n", 0, upTime)
	return u
}

// console gives a command to the simulator.
func (u *counted) console(format string, args ...any) {
	u.t.Helper()
	if _, err := fmt.Fprintf(u.In, format+"\n", args...); err != nil {
		u.t.Fatal(err)
	}
}

// getJSON reads JSON from the API, or from another server.
func getJSON(t *testing.T, url string, v any) {
	t.Helper()
	if err := tryJSON(url, v); err != nil {
		t.Fatal(err)
	}
}

func tryJSON(url string, v any) error {
	resp, err := patientHTTP.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %.300s", url, err, b)
	}
	return nil
}

// patientHTTP bounds the wait for an API that does not answer.
var patientHTTP = &http.Client{Timeout: need.Patience}

// askAgain is the time between two questions to an API.
const askAgain = 5 * time.Millisecond

type portErrors struct {
	GUID   string
	Port   int
	Errors map[string]uint64
}

// counters reads the ports with errors, and the number of the round.
func (u *counted) counters() (round uint64, counts map[string]map[string]uint64) {
	var c struct {
		Round uint64
		Ports []portErrors
	}
	getJSON(u.t, "http://"+u.api+"/v1/counters?by=errors", &c)
	counts = map[string]map[string]uint64{}
	for _, p := range c.Ports {
		g, _ := strconv.ParseUint(p.GUID, 0, 64)
		counts[fmt.Sprintf("%#x port %d", g, p.Port)] = p.Errors
	}
	return c.Round, counts
}

// rounds waits for n whole rounds.
func (u *counted) rounds(n uint64) {
	u.t.Helper()
	from, _ := u.counters()
	eventually(u.t, fmt.Sprintf("%d rounds after %d", n, from), func() bool { now, _ := u.counters(); return now > from+n })
}

// counter is one counter of a port.
type counter struct{ Total, Value, Delta uint64 }

// port reads the counters of a port once they were read in a round after a number: an agent may
// miss a round.
func (u *counted) port(guid, port string, after uint64) map[string]counter {
	u.t.Helper()
	var c struct {
		Round    uint64
		Flags    []string
		Counters map[string]counter
	}
	eventually(u.t, fmt.Sprintf("port %s of %s is read after round %d", port, guid, after), func() bool {
		getJSON(u.t, "http://"+u.api+"/v1/ports/"+guid+"/"+port+"/counters", &c)
		return c.Round > after && slices.Contains(c.Flags, "sampled")
	})
	return c.Counters
}

// round is the number of the last round. The one after the next begins later than now.
func (u *counted) round() uint64 {
	n, _ := u.counters()
	return n
}

// eventually asks several times a second whether something has happened.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(upTime); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("did not happen: %s", what)
		}
	}
}

// ibqueryerrors runs Debian's on the subnet, and returns what it names, by the ports of ours.
func (u *counted) ibqueryerrors(ours map[string]map[string]uint64, args ...string) (theirs map[string]map[string]uint64, text string) {
	t := u.t
	t.Helper()
	text, err := run(t, upTime, u.dir, nil, heddle, append([]string{"attach", "host-1@" + u.sock, "--", "ibqueryerrors"}, args...)...)
	if err != nil && !strings.Contains(text, "Summary") { // it exits with 1 if there are errors
		t.Fatal(err, text)
	}
	theirs = map[string]map[string]uint64{}
	for _, m := range regexp.MustCompile(`GUID (0x[0-9a-f]+) port (\d+):((?: \[[^]]*\])+)`).FindAllStringSubmatch(text, -1) {
		counts := map[string]uint64{}
		for _, f := range regexp.MustCompile(`\[(\w+) == (\d+)`).FindAllStringSubmatch(m[3], -1) {
			counts[f[1]], _ = strconv.ParseUint(f[2], 10, 64)
		}
		key := m[1] + " port " + m[2]
		if g, _ := strconv.ParseUint(m[1], 0, 64); ours[key] == nil { // it names adapters by the GUID of the port
			num, _ := strconv.ParseUint(m[2], 10, 64)
			key = fmt.Sprintf("%#x port %s", g-num, m[2])
		}
		theirs[key] = counts
	}
	return theirs, text
}

// TestCountersAgree: the counters are those that unmodified perfquery and ibqueryerrors read, and
// totals go on when perfquery clears them.
func TestCountersAgree(t *testing.T) {
	need.FUSE(t)
	need.Tool(t, "perfquery")
	need.Tool(t, "ibqueryerrors")
	u := upCounting(t, "--traffic", "random")
	ask := func(args ...string) string {
		return must(t, upTime, u.dir, nil, heddle, append([]string{"attach", "host-1@" + u.sock, "--"}, args...)...)
	}
	want := map[string]uint64{}
	for i, name := range []string{
		"SymbolErrorCounter", "LinkErrorRecoveryCounter", "LinkDownedCounter", "PortRcvErrors", "PortRcvRemotePhysicalErrors",
		"PortRcvSwitchRelayErrors", "PortXmitDiscards", "PortXmitConstraintErrors", "PortRcvConstraintErrors", "LocalLinkIntegrityErrors",
		"ExcessiveBufferOverrunErrors", "VL15Dropped",
	} {
		u.console("performanceset \"sw-1-1\"[1] PortCounters.%s=%d", name, i+3)
		want[name] = uint64(i + 3)
	}
	u.console("performanceset \"host-2\"[1] PortCounters.SymbolErrorCounter=70000") // at the end of 16 bits
	u.rounds(2)
	// Every counter that it reports is ours; it leaves out what is below its thresholds.
	var ours, theirs map[string]map[string]uint64
	var text string
	differ := func() (list []string) {
		_, ours = u.counters()
		theirs, text = u.ibqueryerrors(ours, "-s", "PortXmitWait")
		for port, counts := range theirs {
			for name, n := range counts {
				if ours[port][name] != n {
					list = append(list, fmt.Sprintf("%s %s: ibqueryerrors has %d, we have %d", port, name, n, ours[port][name]))
				}
			}
		}
		return list
	}
	list := differ()
	for limit := time.Now().Add(upTime); len(list) > 0 && time.Now().Before(limit); list = differ() {
		u.rounds(1) // an agent may have missed one
	}
	if len(theirs) < 2 || len(list) > 0 {
		t.Fatalf("%s\nibqueryerrors finds:\n%s", strings.Join(list, "\n"), text)
	}
	var leaf string
	eventually(t, fmt.Sprintf("a port has %v", want), func() bool {
		_, ours = u.counters()
		for port, counts := range ours {
			if maps.Equal(counts, want) {
				leaf = port
			}
		}
		return leaf != ""
	})
	f := strings.Fields(leaf)
	guid, port := f[0], f[2]
	field := func(text, name string) uint64 {
		m := regexp.MustCompile(`(?m)^` + name + `:\.+(\d+)$`).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("no %s in\n%s", name, text)
		}
		n, _ := strconv.ParseUint(m[1], 10, 64)
		return n
	}
	before := ask("perfquery", "-x", "-G", guid, port)
	now := u.port(guid, port, u.round()+1)
	after := ask("perfquery", "-x", "-G", guid, port)
	for _, name := range []string{"PortXmitData", "PortRcvData", "PortXmitPkts", "PortRcvPkts", "PortUnicastXmitPkts"} {
		if v := now[name].Value; v < field(before, name) || v > field(after, name) || v == 0 {
			t.Errorf("%s: %d is not between %d and %d", name, v, field(before, name), field(after, name))
		}
	}
	ask("perfquery", "-R", "-G", guid, port)
	u.port(guid, port, u.round()+1)
	u.console("performanceset \"sw-1-1\"[1] PortCounters.SymbolErrorCounter=2")
	eventually(t, "the counter is set", func() bool {
		now = u.port(guid, port, 0)
		return now["SymbolErrorCounter"].Value != 0
	})
	if c := now["SymbolErrorCounter"]; c.Value != 2 || c.Total != want["SymbolErrorCounter"]+2 {
		t.Errorf("after perfquery -R and 2 more symbol errors: %+v", c)
	}
	if c := now["PortRcvErrors"]; c.Value != 0 || c.Total != want["PortRcvErrors"] {
		t.Errorf("after perfquery -R: %+v", c)
	}
	events := must(t, upTime, u.dir, nil, heddle, "ctl", "perf", "top", "--api", u.api, "--json")
	if !strings.Contains(events, `"clears_seen"`) || strings.Contains(events, `"clears_seen": 0`) {
		t.Errorf("the clear was not seen: %.300s", events)
	}
	if !strings.Contains(u.Output(), "perf_cleared") {
		t.Error("the clear was not told")
	}
}

// TestPrometheus: Debian's Prometheus scrapes the fabric in shards, takes our rules, and every
// expression of the dashboards, ours and those of treydock's exporter, has data.
func TestPrometheus(t *testing.T) {
	t.Parallel() // it waits for Prometheus most of the time, as TestPageAccessible for the browser
	prometheus, promtool := need.Tool(t, "prometheus"), need.Tool(t, "promtool")
	rules, err := filepath.Abs("../../contrib/prometheus/heddle.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	u := upCounting(t, "--traffic", "random")
	u.rounds(1)
	for _, names := range []string{"treydock", "guilbaults"} {
		resp, err := http.Get("http://" + u.api + "/metrics/fabric?names=" + names)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		scraped := filepath.Join(u.dir, "scraped")
		if err = errors.Join(err, os.WriteFile(scraped, b, 0o644)); err != nil || len(b) < 10_000 {
			t.Fatal(err, len(b))
		}
		// It ends with 3 if only its taste in names is hurt, and with 1 if it cannot read the text.
		if out := must(t, upTime, u.dir, nil, "sh", "-c", promtool+" check metrics <"+scraped+" 2>&1; echo status $?"); strings.Contains(out, "status 1") {
			t.Errorf("promtool refuses the names of %s: %s", names, out)
		}
	}
	addr := need.Addr(t)
	config := filepath.Join(u.dir, "prometheus.yml")
	text := fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - job_name: heddle
    static_configs: [{targets: [%q]}]
  - job_name: fabric
    metrics_path: /metrics/fabric
    static_configs:
      - {targets: [%[2]q], labels: {__param_shard: 0/2, shard: "0"}}
      - {targets: [%[2]q], labels: {__param_shard: 1/2, shard: "1"}}
  - job_name: guilbaults
    metrics_path: /metrics/fabric
    params: {names: [guilbaults]}
    static_configs: [{targets: [%[2]q]}]
`, rules, u.api)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	must(t, upTime, u.dir, nil, promtool, "check", "config", config)
	start(t, u.dir, nil, prometheus, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(u.dir, "data"), "--web.listen-address="+addr)
	query := func(expr string) bool {
		resp, err := http.Get("http://" + addr + "/api/v1/query?query=" + url.QueryEscape(expr))
		if err != nil {
			return false // it is starting
		}
		defer resp.Body.Close()
		var r struct {
			Status, Error string
			Data          struct{ Result []any }
		}
		if json.NewDecoder(resp.Body).Decode(&r) != nil || r.Status == "" {
			return false
		}
		if r.Status != "success" && resp.StatusCode == http.StatusBadRequest {
			t.Fatalf("%s: %s", expr, r.Error)
		}
		return len(r.Data.Result) > 0
	}
	// Differences need a sample of each job from before.
	for _, e := range []string{
		"count(up == 1) == 4", "infiniband_switch_port_symbol_error_total == 0", "infiniband_symbolerrorcounter_total == 0",
	} {
		eventually(t, "a first scrape: "+e, func() bool { return query(e) })
	}
	for _, c := range []string{
		"SymbolErrorCounter=9", "LinkDownedCounter=2", "LocalLinkIntegrityErrors=3", "PortRcvRemotePhysicalErrors=4", "PortXmitDiscards=500",
		"PortRcvErrors=6", "PortRcvSwitchRelayErrors=7", "PortXmitWait=4000000000",
	} {
		u.console("performanceset \"sw-1-1\"[1] PortCounters.%s", c)
	}
	exprs := []string{
		// treydock's, without those about fans and power supplies, which only the makers' own
		// attributes tell, and with a threshold that 32 bits of PortXmitWait can reach.
		"infiniband:switch_port_link_downed:delta5m>0", "infiniband:switch_port_local_link_integrity_errors:delta5m>0",
		"infiniband:switch_port_receive_remote_physical_errors:delta5m>0", "infiniband:switch_port_symbol_error:delta5m>0",
		"infiniband:switch_port_transmit_discards:delta5m>0", "(sum by (switch) (infiniband:switch_port_transmit_wait:delta5m>0))>2*10^9",
		"topk(20, infiniband:switch_port_receive_data_bytes:irate5m>0)", "topk(20, infiniband:switch_port_receive_packets:irate5m)",
		"topk(20, infiniband:switch_port_transmit_wait:delta5m > 10^9)", "topk(20, sum by (switch) (infiniband:switch_port_receive_data_bytes:irate5m>0))",
		"topk(20, sum by (switch) (infiniband:switch_port_receive_packets:irate5m))",
		// of the other exporter's names
		"rate(infiniband_portxmitdata_total[5m])*4 > 0", "rate(infiniband_portrcvdata_total{component=\"switch\"}[5m])*4 > 0",
		"delta(infiniband_symbolerrorcounter_total[5m]) > 0", "infiniband_speed", "infiniband_width", "infiniband_scrape_ok == 1",
		"infiniband_scrape_duration_seconds", "infiniband_ibqueryerrors_duration_seconds", "count by (local_name, remote_name) (infiniband_speed) > 0",
		"ALERTS{alertname=\"InfinibandSymbolErrors\"} or ALERTS{alertname=\"InfinibandDiscards\"}",
		// findings: LinkDownedCounter is one
		"ALERTS{alertname=\"HeddleFinding\",rule=\"link_flap\"}", "heddle_findings{rule=\"link_flap\",severity=\"warning\"} == 1",
		"count(heddle_findings) == 20", "heddle_findings_opened_total == 1", "heddle_findings_missed == 0",
	}
	// Every counter of the other exporter, which Grafana's dashboard 13260 draws.
	for name := range strings.FieldsSeq(`linkdownedcounter symbolerrorcounter portxmitdiscards portxmitwait portxmitdata portrcvdata portxmitpkts
		portrcvpkts portrcverrors portunicastxmitpkts portunicastrcvpkts portmulticastxmitpkts portmulticastrcvpkts portbufferoverrunerrors
		portlocalphysicalerrors portrcvremotephysicalerrors portinactivediscards portdlidmappingerrors linkerrorrecoverycounter
		locallinkintegrityerrors vl15dropped portneighbormtudiscards`) {
		exprs = append(exprs, fmt.Sprintf("sum by (local_name, local_port, remote_name, remote_port) (rate(infiniband_%s_total{component=\"switch\"}[5m]))", name))
	}
	for _, file := range []string{"heddle-fabric-performance.json", "heddle-fabric-health.json"} {
		b, err := os.ReadFile("../../contrib/grafana/" + file)
		if err != nil {
			t.Fatal(err)
		}
		var d struct {
			Panels []struct{ Targets []struct{ Expr string } }
		}
		if err := json.Unmarshal(b, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, p := range d.Panels {
			for _, x := range p.Targets {
				exprs = append(exprs, x.Expr)
			}
		}
	}
	if len(exprs) < 30 {
		t.Fatalf("%d expressions", len(exprs))
	}
	for _, e := range exprs {
		eventually(t, e, func() bool { return query(e) })
	}
}

// TestCountersOfIbsim reads the counters of Debian's ibsim, whose agents do not answer what they do
// not have, and compares with what perfquery reads before and after.
func TestCountersOfIbsim(t *testing.T) {
	need.Tool(t, "ibsim")
	need.Tool(t, "perfquery")
	b := testNets[0].build(t)
	_, env := b.ibsim(t)
	u := &counted{api: need.Addr(t), dir: b.dir}
	u.program = start(t, b.dir, nil, heddle, "sm", "--port", "ibsim:"+b.sm+"@"+strings.TrimPrefix(env[0], "IBSIM_SOCKNAME="),
		"--state", filepath.Join(b.dir, "state"), "--perf", "500ms", "--api", u.api)
	u.await("SUBNET UP\n", 0, upTime)
	type state struct {
		Agents int `json:"agents"`
		Silent int `json:"agents_silent"`
		Ports  []struct {
			GUID string
			Port int
		}
	}
	var c state
	eventually(t, "all agents answer", func() bool {
		getJSON(t, "http://"+u.api+"/v1/counters?by=use&limit=1", &c)
		return c.Agents > 1 && c.Silent == 0 && len(c.Ports) == 1
	})
	p := c.Ports[0]
	read := func() uint64 {
		text := must(t, upTime, b.dir, env, "ibsim-run", "perfquery", "-x", "-G", p.GUID, strconv.Itoa(p.Port))
		m := regexp.MustCompile(`(?m)^PortXmitData:\.+(\d+)$`).FindStringSubmatch(text)
		if m == nil {
			t.Fatal(text)
		}
		n, _ := strconv.ParseUint(m[1], 10, 64)
		return n
	}
	before := read()
	x := u.port(p.GUID, strconv.Itoa(p.Port), u.round()+1)
	if v, after := x["PortXmitData"].Value, read(); v < before || v > after || v == 0 {
		t.Errorf("%s port %d: PortXmitData %d is not between %d and %d", p.GUID, p.Port, v, before, after)
	}
}
