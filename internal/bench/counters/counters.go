// Package counters measures what reading all port counters costs a manager.
package counters

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"heddle/flood"
	"heddle/internal/bench/testbed"
)

const (
	period = 10 * time.Second
	// rounds is for how many periods the processor time is measured.
	rounds = 3
)

// counting is a manager behind a simulator of its own, with or without --perf.
type counting struct {
	sim, prog *testbed.Program
	sock      string
	api       string
}

// Measure measures what reading all port counters costs: processor time and memory of the manager,
// and the response times of its SA, compared with a manager that reads none. The other one is
// stopped meanwhile, and they take turns.
func Measure(b *testbed.Testbed, sizes []int) error {
	t := testbed.NewTable("Port counters every 10 s", "hosts", "ports", "processor", "without", "memory", "without", "SA p50", "without", "SA p99", "without", "÷ without")
	for _, n := range sizes {
		if err := measureSize(b, t, n); err != nil {
			return fmt.Errorf("%d hosts: %w", n, err)
		}
	}
	return nil
}

func measureSize(b *testbed.Testbed, t testbed.Table, hosts int) error {
	netlist, err := b.Netlist(hosts)
	if err != nil {
		return err
	}
	nodes, dst, err := testbed.Floodable(netlist)
	if err != nil {
		return err
	}
	var both [2]*counting
	for i := range both {
		c, err := startCounting(b, netlist, []string{"0", period.String()}[i])
		if c != nil {
			defer c.end()
		}
		if err != nil {
			return err
		}
		both[i] = c
	}
	ports, err := both[1].settled()
	if err != nil {
		return err
	}
	var busy, memory [2]float64
	for i, c := range both {
		from, begin := testbed.CPUTime(c.prog.Pid()), time.Now()
		time.Sleep(rounds * period)
		busy[i] = (testbed.CPUTime(c.prog.Pid()) - from).Seconds() / time.Since(begin).Seconds() * 100
		if memory[i], err = testbed.Resident(c.prog.Pid()); err != nil {
			return err
		}
	}
	var median, late [2][]float64
	for range b.Runs {
		for i, c := range both {
			both[1-i].signal(syscall.SIGSTOP)
			time.Sleep(time.Duration(i) * period) // what timed out while it was stopped is over
			var x flood.Figures                   // of four queries at a time
			err := b.Flood(&x, "--dst", dst, "--window", "4", "--time", "2s", "--port", "ibsim:"+nodes[0]+"@"+c.sock)
			both[1-i].signal(syscall.SIGCONT)
			if err != nil {
				return err
			}
			median[i], late[i] = append(median[i], x.Median), append(late[i], x.P99)
		}
	}
	t.Row("%d|%d|%.1f %%|%.1f %%|%.0f MiB|%.0f MiB|%s|%s|%s|%s|%.2f", hosts, ports, busy[1], busy[0], memory[1], memory[0],
		testbed.Microseconds(testbed.Median(median[1])), testbed.Microseconds(testbed.Median(median[0])), testbed.Microseconds(testbed.Median(late[1])), testbed.Microseconds(testbed.Median(late[0])), testbed.Median(late[1])/testbed.Median(late[0]))
	return nil
}

// startCounting brings a subnet up.
func startCounting(b *testbed.Testbed, netlist, period string) (*counting, error) {
	c := &counting{}
	var err error
	if c.sim, c.sock, err = b.Simulate("heddle sim", netlist); err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp(b.Dir, "counters")
	if err != nil {
		return c, err
	}
	if c.api, err = testbed.FreeAddress(); err != nil {
		return c, err
	}
	argv := []string{"sm", "--port", "ibsim:@" + c.sock, "--perf", period, "--api", c.api, "--token-file", filepath.Join(tmp, "token")}
	if c.prog, err = testbed.Launch(tmp, []string{"HEDDLE_RUNTIME_DIR=" + tmp}, b.Heddle, argv...); err != nil {
		return c, err
	}
	_, err = c.prog.Await("SUBNET UP", b.Limit)
	return c, err
}

// settled waits until all ports were read twice, and returns their number.
func (c *counting) settled() (ports int, err error) {
	for end := time.Now().Add(20 * period); time.Now().Before(end); time.Sleep(period / 4) {
		resp, err := http.Get("http://" + c.api + "/v1/counters?limit=1")
		if err != nil {
			return 0, err
		}
		var x struct {
			Round  int `json:"round"`
			Polled int `json:"ports_polled"`
		}
		err = json.NewDecoder(resp.Body).Decode(&x)
		resp.Body.Close()
		if err != nil || x.Round >= 3 {
			return x.Polled, err
		}
	}
	return 0, fmt.Errorf("no counters were read within %v", 20*period)
}

func (c *counting) signal(s syscall.Signal) {
	c.sim.Signal(s)
	c.prog.Signal(s)
}

func (c *counting) end() {
	c.signal(syscall.SIGCONT)
	testbed.End(c.prog, c.sim)
}
