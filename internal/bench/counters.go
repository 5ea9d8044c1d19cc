package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"heddle/flood"
)

const (
	countersPeriod = 10 * time.Second
	// countersRounds is for how many periods the processor time is measured.
	countersRounds = 3
)

// counting is a manager behind a simulator of its own, with or without --perf.
type counting struct {
	sim, prog *program
	sock      string
	api       string
}

// counters measures what reading all port counters costs: processor time and memory of the manager,
// and the response times of its SA, compared with a manager that reads none. The other one is
// stopped meanwhile, and they take turns.
func (b *bench) counters(sizes []int) error {
	t := b.table("Port counters every 10 s", "hosts", "ports", "processor", "without", "memory", "without", "SA p50", "without", "SA p99", "without", "÷ without")
	for _, n := range sizes {
		if err := b.countersSize(t, n); err != nil {
			return fmt.Errorf("%d hosts: %w", n, err)
		}
	}
	return nil
}

func (b *bench) countersSize(t table, hosts int) error {
	netlist, err := b.net(hosts)
	if err != nil {
		return err
	}
	nodes, dst, err := floodable(netlist)
	if err != nil {
		return err
	}
	var both [2]*counting
	for i := range both {
		c, err := b.startCounting(netlist, []string{"0", countersPeriod.String()}[i])
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
		from, begin := cpuTime(c.prog.Pid()), time.Now()
		time.Sleep(countersRounds * countersPeriod)
		busy[i] = (cpuTime(c.prog.Pid()) - from).Seconds() / time.Since(begin).Seconds() * 100
		if memory[i], err = resident(c.prog.Pid()); err != nil {
			return err
		}
	}
	var median, late [2][]float64
	for range b.runs {
		for i, c := range both {
			both[1-i].signal(syscall.SIGSTOP)
			time.Sleep(time.Duration(i) * countersPeriod) // what timed out while it was stopped is over
			x, err := b.floodCounting(c, nodes[0], dst)
			both[1-i].signal(syscall.SIGCONT)
			if err != nil {
				return err
			}
			median[i], late[i] = append(median[i], x.Median), append(late[i], x.P99)
		}
	}
	t.row("%d|%d|%.1f %%|%.1f %%|%.0f MiB|%.0f MiB|%s|%s|%s|%s|%.2f", hosts, ports, busy[1], busy[0], memory[1], memory[0],
		microseconds(mid(median[1])), microseconds(mid(median[0])), microseconds(mid(late[1])), microseconds(mid(late[0])), mid(late[1])/mid(late[0]))
	return nil
}

// startCounting brings a subnet up.
func (b *bench) startCounting(netlist, period string) (*counting, error) {
	c := &counting{}
	var err error
	if c.sim, c.sock, err = b.serve("heddle sim", netlist); err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp(b.dir, "counters")
	if err != nil {
		return c, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return c, err
	}
	c.api = l.Addr().String()
	l.Close()
	argv := []string{"sm", "--port", "ibsim:@" + c.sock, "--perf", period, "--api", c.api, "--token-file", filepath.Join(tmp, "token")}
	if c.prog, err = launch(tmp, []string{"HEDDLE_RUNTIME_DIR=" + tmp}, b.bin, argv...); err != nil {
		return c, err
	}
	_, err = c.prog.await("SUBNET UP", b.limit)
	return c, err
}

// settled waits until all ports were read twice, and returns their number.
func (c *counting) settled() (ports int, err error) {
	for end := time.Now().Add(20 * countersPeriod); time.Now().Before(end); time.Sleep(countersPeriod / 4) {
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
	return 0, fmt.Errorf("no counters were read within %v", 20*countersPeriod)
}

func (c *counting) signal(s syscall.Signal) {
	c.sim.Signal(s)
	c.prog.Signal(s)
}

func (c *counting) end() {
	c.signal(syscall.SIGCONT)
	for _, p := range []*program{c.prog, c.sim} {
		if p != nil {
			p.StopWith(endSignal, 20*time.Second)
		}
	}
}

// floodCounting asks an SA for paths, four at a time.
func (b *bench) floodCounting(c *counting, node, dst string) (x flood.Figures, err error) {
	out, err := output(b.dir, nil, b.bin, "flood", "--json", "--dst", dst, "--window", strconv.Itoa(4), "--time", "2s", "--port", "ibsim:"+node+"@"+c.sock)
	if err == nil {
		err = json.Unmarshal(out, &x)
	}
	return x, err
}

// resident is the memory of a process in MiB.
func resident(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	var size, pages float64
	_, err = fmt.Sscan(string(b), &size, &pages)
	return pages * float64(os.Getpagesize()) / (1 << 20), err
}
