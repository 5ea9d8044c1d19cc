package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/transport/ibsim"
)

// rates measures how fast the simulators answer directed-route NodeInfo
// queries, with the same client against both.
func (b *bench) rates(sizes []int) error {
	fmt.Println("## SMPs answered through ibsim's protocol")
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "hosts\tclients\twindow\theddle sim\tibsim\tratio")
	for _, n := range sizes {
		net, err := b.net(n)
		if err != nil {
			return err
		}
		rate := map[string][]float64{}
		cases := []struct{ clients, window int }{{1, 1}, {1, 8}, {8, 1}, {8, 8}}
		for _, sim := range []string{"heddle sim", "ibsim"} {
			p, name, err := b.serve(sim, net)
			if err != nil {
				return err
			}
			for _, c := range cases {
				var all []float64
				for range *runs {
					r, err := load(name, c.clients, c.window)
					if err != nil {
						p.stop(syscall.SIGKILL)
						return fmt.Errorf("%s, %d clients, window %d: %w", sim, c.clients, c.window, err)
					}
					all = append(all, r)
				}
				rate[sim] = append(rate[sim], mid(all))
			}
			p.stop(syscall.SIGKILL)
		}
		for i, c := range cases {
			ours, theirs := rate["heddle sim"][i], rate["ibsim"][i]
			fmt.Fprintf(t, "%d\t%d\t%d\t%.0f/s\t%.0f/s\t%.2f\n", n, c.clients, c.window, ours, theirs, ours/theirs)
		}
		t.Flush()
	}
	fmt.Println()
	return nil
}

// loadTime is how long one measurement lasts.
const loadTime = time.Second

// load runs clients at once and returns the answers a second of all.
func load(name string, clients, window int) (float64, error) {
	conns := make([]*ibsim.Conn, clients)
	for i := range conns {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		c, err := ibsim.Dial(ctx, ibsim.Options{SockName: name})
		cancel()
		if err != nil {
			return 0, err
		}
		defer c.Close()
		conns[i] = c
	}
	var wg sync.WaitGroup
	counts, errs := make([]int, clients), make([]error, clients)
	begin := time.Now()
	for i, c := range conns {
		wg.Go(func() { counts[i], errs[i] = ask(c, window, begin.Add(loadTime)) })
	}
	wg.Wait()
	total := 0
	for _, n := range counts {
		total += n
	}
	return float64(total) / time.Since(begin).Seconds(), errors.Join(errs...)
}

// ask keeps window requests in flight until the deadline.
func ask(c *ibsim.Conn, window int, until time.Time) (int, error) {
	var m ib.MAD
	p := mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Data: m[:]}
	tid := uint64(0)
	send := func() error {
		smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, []byte{1})
		tid++
		m.SetTID(tid)
		return c.Send(&p)
	}
	for range window {
		if err := send(); err != nil {
			return 0, err
		}
	}
	var in mad.Packet
	done := 0
	for {
		if err := c.Recv(&in); err != nil {
			return done, err
		}
		if in.Status != mad.Received {
			return done, errors.New("a request failed")
		}
		done++
		if done&63 == 0 && time.Now().After(until) {
			return done, nil
		}
		if err := send(); err != nil {
			return done, err
		}
	}
}
