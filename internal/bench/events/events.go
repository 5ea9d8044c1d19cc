// Package events measures what 1,000 events a second cost the SA.
//
// Heddle bounds the events that a subnet or a client can cause, so the manager under measurement is a
// process of this program: the same daemon, with a goroutine that adds events.
package events

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"heddle/flood"
	"heddle/internal/bench/testbed"
)

// Options are the settings of this part.
type Options struct {
	Turns int // with events, of 0.5 s, and as many without, for each load

	// Those of the manager under measurement, a process of this program.
	socket  string // of its simulator; "": this process measures
	dir     string // for its events and its control socket
	batch   int    // most events in one webhook of the first target; 0: a request for each
	targets string // where it sends webhooks: two addresses, with a comma between
}

// Flags are the flags of this part, with their values once they are parsed.
func Flags(fs *flag.FlagSet) *Options {
	o := &Options{}
	fs.IntVar(&o.Turns, "event-turns", 120, "events: turns with events, of 0.5 s, and as many without, for each load")
	fs.StringVar(&o.socket, "events-manager", "", "events: run as the manager under measurement, at the simulator with this socket name")
	fs.StringVar(&o.dir, "events-dir", "", "events: directory of that manager's events and of its control socket")
	fs.IntVar(&o.batch, "events-batch", 0, "events: most events in one of these webhooks; 0: a request for each")
	fs.StringVar(&o.targets, "events-targets", "", "events: where that manager sends webhooks: two addresses, with a comma between")
	return o
}

// rate is how many events a second there are while there are any.
const rate = 1000

// load is a load of the SA, and who reads the events meanwhile.
type load struct {
	webhooks bool // one target takes them, nobody listens at the other
	batch    int  // webhook.Target.Batch
	window   int
}

// readers says who reads the events.
func (c *load) readers() string {
	switch {
	case !c.webhooks:
		return "none"
	case c.batch > 0:
		return "one takes them, one is dead, in batches"
	}
	return "one takes them, one is dead"
}

// Measure measures queries with and without events. Turns without events are between those with events, so
// that other load of the machine affects both: each turn with events has a ratio to the one beside it.
// Two figures depend less on other load: how long the process waited for locks, and how long Add took.
func Measure(b *testbed.Testbed, o *Options, sizes []int) error {
	t := testbed.NewTable(fmt.Sprintf("PathRecord queries with and without %d events a second", rate),
		"hosts", "webhooks", "instances", "turns", "events", "lost", "delivered", "queries/s", "with events", "median", "with events",
		"99 %", "with events", "÷ (median of turns)", "quartiles", "CPU of the manager", "with events",
		"wait for locks in 1 s", "with events", "Add, 99.9 %")
	for _, hosts := range sizes {
		for _, c := range []load{{false, 0, 1}, {false, 0, 16}, {true, 0, 1}, {true, 0, 16}, {true, 1000, 1}, {true, 1000, 16}} {
			if err := measure(b, t, o.Turns, hosts, c); err != nil {
				return fmt.Errorf("%d hosts: %w", hosts, err)
			}
		}
	}
	return nil
}

// turn is one measurement; cpu is the share of a processor that the manager had, and waits how
// long its goroutines waited for locks in a second.
type turn struct {
	flood.Figures
	cpu, waits float64
}

func measure(b *testbed.Testbed, t testbed.Table, count, hosts int, c load) error {
	netlist, err := b.Netlist(hosts)
	if err != nil {
		return err
	}
	nodes, dst, err := testbed.Floodable(netlist)
	if err != nil {
		return err
	}
	var addr string
	var got atomic.Uint64
	if c.webhooks {
		var end func()
		if addr, end, err = webhookTargets(&got); err != nil {
			return err
		}
		defer end()
	}
	m, err := startSubject(b, netlist, addr, c.batch)
	if m != nil {
		defer m.end()
	}
	if err != nil {
		return err
	}
	turns := [2][]turn{}
	for k := range 2 * count {
		with := (k + k/2) % 2 // off on, on off
		st, err := m.ask([]string{"/off", "/on"}[with])
		if err != nil {
			return err
		}
		begin, used := time.Now(), testbed.CPUTime(m.manager.Pid())
		var x turn
		if err := b.Flood(&x.Figures, "--dst", dst, "--port", "ibsim:"+nodes[0]+"@"+m.sock,
			"--window", strconv.Itoa(c.window), "--time", "500ms"); err != nil {
			return err
		}
		x.cpu = (testbed.CPUTime(m.manager.Pid()) - used).Seconds() / time.Since(begin).Seconds()
		after, err := m.ask("/stat")
		if err != nil {
			return err
		}
		x.waits = (after.Waited - st.Waited) / time.Since(begin).Seconds()
		turns[with] = append(turns[with], x)
	}
	st, err := m.ask("/off")
	if err != nil {
		return err
	}
	of := func(with int, get func(*turn) float64) float64 {
		var v []float64
		for k := range turns[with] {
			v = append(v, get(&turns[with][k]))
		}
		return testbed.Median(v)
	}
	var ratios []float64
	for k := range turns[1] {
		ratios = append(ratios, turns[1][k].P99/turns[0][k].P99)
	}
	ratio := testbed.Median(ratios) // which sorts them
	qps := func(x *turn) float64 { return x.QPS }
	p50 := func(x *turn) float64 { return x.Median }
	p99 := func(x *turn) float64 { return x.P99 }
	cpu := func(x *turn) float64 { return 100 * x.cpu }
	waits := func(x *turn) float64 { return 1e6 * x.waits }
	t.Row("%d|%s|%d|%d|%d|%d|%d|%.0f|%.0f|%s|%s|%s|%s|**%.2f**|%.2f to %.2f|%.0f %%|%.0f %%|%s|%s|%s", hosts, c.readers(), c.window, len(ratios), st.Added, st.Lost, got.Load(),
		of(0, qps), of(1, qps), testbed.Microseconds(of(0, p50)), testbed.Microseconds(of(1, p50)), testbed.Microseconds(of(0, p99)), testbed.Microseconds(of(1, p99)),
		ratio, ratios[len(ratios)/4], ratios[len(ratios)*3/4], of(0, cpu), of(1, cpu),
		testbed.Microseconds(of(0, waits)), testbed.Microseconds(of(1, waits)), testbed.Microseconds(st.Adding))
	return nil
}

// webhookTargets are two targets of webhooks: nobody listens at the first, and the second counts what
// it takes.
func webhookTargets(got *atomic.Uint64) (addr string, end func(), err error) {
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
