// Package moves measures how fast the API moves interfaces of virtual machines.
package moves

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"heddle/internal/bench/testbed"
)

const (
	movers    = 64 // interfaces that move, each between two functions of its own
	moveTime  = 2 * time.Second
	moveBatch = 64
)

// moveGoals are the moves a second that one client is to get, one after the other, by hosts.
var moveGoals = map[int]float64{648: 500, 2853: 200}

// Measure measures how fast the API moves interfaces of virtual machines from one
// hypervisor to another, by itself: the functions at both places are up. Manager and
// simulator are one process, as in 'heddle up'.
func Measure(b *testbed.Testbed) error {
	t := testbed.NewTable("Moves of interfaces through the API", "hosts", "LIDs", "LIDs routed", "store",
		"one after the other, moves/s", "goal", "processor a move", "median", "p99", fmt.Sprintf("batches of %d, moves/s", moveBatch))
	for _, hosts := range []int{648, 2853} {
		for _, lids := range []string{"dynamic", "prepopulated"} {
			for _, stored := range []bool{false, true} {
				if err := measureIn(b, t, hosts, lids, stored); err != nil {
					return fmt.Errorf("%d hosts, %s: %w", hosts, lids, err)
				}
			}
		}
	}
	return nil
}

// mobile is a running subnet whose hosts are hypervisors.
type mobile struct {
	prog   *testbed.Program
	client *http.Client
	at     []string // hypervisors, by port GUID
	where  []int    // by interface: 0 or 1 of its two
}

func measureIn(b *testbed.Testbed, t testbed.Table, hosts int, lids string, stored bool) error {
	m, err := startMobile(b, hosts, lids, stored)
	if m != nil {
		defer m.prog.Stop(syscall.SIGINT)
	}
	if err != nil {
		return err
	}
	if err := m.create(); err != nil {
		return err
	}
	var pools struct {
		LIDs int `json:"lids_used"`
	}
	if err := m.call(http.MethodGet, "/v1/vms/pools", nil, &pools); err != nil {
		return err
	}
	for i := range movers { // each entry of the snapshot is there from now on
		if err := m.move(i); err != nil {
			return err
		}
	}
	var rates, cpu, each, many []float64
	for range b.Runs {
		busy, begin, n := testbed.CPUTime(m.prog.Pid()), time.Now(), 0
		for ; time.Since(begin) < moveTime; n++ {
			one := time.Now()
			if err := m.move(n % movers); err != nil {
				return err
			}
			each = append(each, time.Since(one).Seconds()*1e6)
		}
		rates = append(rates, float64(n)/time.Since(begin).Seconds())
		cpu = append(cpu, (testbed.CPUTime(m.prog.Pid())-busy).Seconds()*1e6/float64(n))
		begin, n = time.Now(), 0
		for ; time.Since(begin) < moveTime; n += moveBatch {
			if err := m.moveAll(); err != nil {
				return err
			}
		}
		many = append(many, float64(n)/time.Since(begin).Seconds())
	}
	store := "memory"
	if stored {
		store = "file"
	}
	median := testbed.Median(each)
	t.Row("%d|%s|%d|%s|%.0f|%.0f|%s|%s|%s|%.0f", hosts, lids, pools.LIDs, store, testbed.Median(rates), moveGoals[hosts],
		testbed.Microseconds(testbed.Median(cpu)), testbed.Microseconds(median), testbed.Microseconds(each[len(each)*99/100]), testbed.Median(many))
	return nil
}

// startMobile brings up a subnet in which the first function of 2·movers hypervisors is up.
func startMobile(b *testbed.Testbed, hosts int, lids string, stored bool) (*mobile, error) {
	tmp, err := os.MkdirTemp(b.Dir, "moves")
	if err != nil {
		return nil, err
	}
	api := filepath.Join(tmp, "api")
	args := []string{
		"up", "--topo", fmt.Sprintf("fattree,%d", hosts), "--hypervisors", "vswitch,16", "--vms", "console", "--vswitch-lids", lids, "--traffic", "none",
		"--api", "", "--api-socket", api, "--socket", b.Name(),
	}
	if stored {
		args = append(args, "--state", filepath.Join(tmp, "state"))
	}
	p, err := testbed.Launch(b.Dir, nil, b.Heddle, args...)
	if err != nil {
		return nil, err
	}
	m := &mobile{prog: p, where: make([]int, movers), client: testbed.UnixClient(api, time.Minute)}
	if _, err := p.Await("SUBNET UP", b.Limit); err != nil {
		return m, err
	}
	return m, m.place(hosts)
}

// place starts a VM on the first function of hypervisors all over the fabric.
func (m *mobile) place(hosts int) error {
	type hypervisor struct {
		Port string `json:"port_guid"`
		Node string `json:"description"`
	}
	var list []hypervisor
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if err := m.call(http.MethodGet, "/v1/hypervisors", nil, &list); err != nil {
			return err
		}
		if len(list) == hosts {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d hypervisors are known", len(list))
		}
	}
	for i := range 2 * movers {
		h := list[1+i*(hosts-1)/(2*movers)] // not the manager's
		m.at = append(m.at, h.Port)
		if _, err := fmt.Fprintf(m.prog.In, "vm place vm%d \"%s\" 1\n", i, h.Node); err != nil {
			return err
		}
	}
	var up []struct{ State string }
	for deadline := time.Now().Add(time.Minute); len(up) < 2*movers; time.Sleep(50 * time.Millisecond) {
		if err := m.call(http.MethodGet, "/v1/vports", nil, &up); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d functions are up", len(up), 2*movers)
		}
	}
	return nil
}

// other is the hypervisor of an interface where it is not, and goes next.
func (m *mobile) other(i int) string {
	m.where[i] = 1 - m.where[i]
	return m.at[i+m.where[i]*movers]
}

func mover(i int) string { return fmt.Sprintf("if%d", i) }

// create makes the interfaces, each at the first of its two hypervisors.
func (m *mobile) create() error {
	var ops []map[string]any
	for i := range movers {
		ops = append(ops, map[string]any{
			"op": "create", "name": mover(i), "lid_kind": "own", "hypervisor": m.at[i], "function": 1,
		})
	}
	return m.batch(ops)
}

// moveAll moves all interfaces in one request.
func (m *mobile) moveAll() error {
	var ops []map[string]any
	for i := range moveBatch {
		ops = append(ops, map[string]any{"op": "move", "name": mover(i), "hypervisor": m.other(i), "function": 1})
	}
	return m.batch(ops)
}

func (m *mobile) batch(ops []map[string]any) error {
	var out struct {
		Results []struct {
			Status int
			Error  string
		}
	}
	if err := m.call(http.MethodPost, "/v1/vms:batch", map[string]any{"operations": ops}, &out); err != nil {
		return err
	}
	for i, r := range out.Results {
		if r.Status >= 300 || r.Status == http.StatusAccepted {
			return fmt.Errorf("%v: status %d %s", ops[i], r.Status, r.Error)
		}
	}
	return nil
}

// move moves an interface to its other hypervisor.
func (m *mobile) move(i int) error {
	var v struct{ State, Doing, Reason string }
	err := m.call(http.MethodPost, "/v1/vms/"+mover(i)+"/move", map[string]any{"hypervisor": m.other(i), "function": 1}, &v)
	if err == nil && (v.State != "attached" || v.Doing != "") {
		err = fmt.Errorf("%s is %s, %s: %s", mover(i), v.State, v.Doing, v.Reason)
	}
	return err
}

// call sends a request and decodes what it answers.
func (m *mobile) call(method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequest(method, "http://heddle"+path, body)
	if err != nil {
		return err
	}
	resp, err := m.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, strings.TrimSpace(string(text)))
	}
	return json.Unmarshal(text, out)
}
