package ibsimd

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/internal/fabrictest"
	"heddle/internal/ibtools"
	"heddle/sim"
	"heddle/sim/live"
)

// The benchmark runs the server in a process of its own, as users do: this
// program, started again with these two variables.
const (
	envServe   = "HEDDLE_IBSIMD_TEST_SERVE"
	envNetlist = "HEDDLE_IBSIMD_TEST_NETLIST"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(envServe); name != "" {
		if err := child(name, os.Getenv(envNetlist)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(name, netlist string) error {
	file, err := os.Open(netlist)
	if err != nil {
		return err
	}
	f, err := fabric.ReadNetlist(file, fabric.NetlistOptions{})
	if err != nil {
		return err
	}
	s, err := sim.New(f, sim.Config{})
	if err != nil {
		return err
	}
	d := live.New(s)
	srv, err := Listen(d, Options{SockName: name})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return srv.Serve(ctx)
}

func startChild(b *testing.B, netlist string) (string, int) {
	b.Helper()
	name := sockName()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), envServe+"="+name, envNetlist+"="+netlist)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		_ = c.Wait()
	})
	for range time.Tick(5 * time.Millisecond) {
		if ibtools.Serving(name) {
			return name, c.Process.Pid
		}
	}
	return "", 0
}

// cpuTime is the processor time that a process has used.
func cpuTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	var sum time.Duration
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range tasks {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has ended
		}
		var ns int64
		if _, err := fmt.Sscan(string(text), &ns); err == nil {
			sum += time.Duration(ns)
		}
	}
	return sum
}

func writeNetlist(b *testing.B, f *fabric.Fabric) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "net")
	w, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	if err := fabric.WriteNetlist(w, f); err != nil {
		b.Fatal(err)
	}
	return path
}

// exchange does n requests with a window on one client.
func (r *raw) exchange(b *testing.B, n, window int, path ...byte) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, path)
	sent := 0
	for got := range n {
		for sent < n && sent-got < window {
			sent++
			m.SetTID(uint64(sent))
			r.send(b, &m)
		}
		if d := r.recv(b); d.Status() != 0 || d.MAD().Method() != ib.MethodGetResp {
			b.Errorf("status %d, header % x", d.Status(), d.MAD()[:24])
			return
		}
	}
}

// BenchmarkRequests compares the server with Debian's ibsim, if that is
// installed, on the same net with the same client: directed-route NodeInfo of
// a spine, two hops away. Windows beyond 8 and more than ten clients are more
// than ibsim takes. The server's processor time is the number to compare on a
// machine that does other work too.
func BenchmarkRequests(b *testing.B) {
	f, err := fabrictest.Generate("fattree", []string{"324"}, 1)
	if err != nil {
		b.Fatal(err)
	}
	var hosts []string
	for i := range f.Nodes {
		if f.Nodes[i].Type == ib.NodeCA {
			hosts = append(hosts, f.Nodes[i].ID)
		}
	}
	netlist := writeNetlist(b, f)
	type server struct {
		kind, sock string
		pid        int
	}
	name, pid := startChild(b, netlist)
	servers := []server{{"heddle", name, pid}}
	if _, err := exec.LookPath("ibsim"); err == nil {
		bench, proc := ibtools.Ibsim(b, netlist, sockName())
		servers = append(servers, server{"ibsim", bench.Sock, proc.Pid()})
	}
	for _, load := range []struct{ clients, window int }{{1, 1}, {1, 8}, {8, 1}, {8, 8}, {1, 256}, {8, 256}} {
		for _, s := range servers {
			if load.window > 8 && s.kind == "ibsim" {
				continue
			}
			b.Run(fmt.Sprintf("clients=%d/window=%d/%s", load.clients, load.window, s.kind), func(b *testing.B) {
				var cs []*raw
				for i := range load.clients {
					cs = append(cs, newRaw(b, s.sock, hosts[i], false))
				}
				cpu := cpuTime(b, s.pid)
				b.ResetTimer()
				var wg sync.WaitGroup
				for _, c := range cs {
					wg.Go(func() { c.exchange(b, b.N/load.clients+1, load.window, 1, 20) })
				}
				wg.Wait()
				b.StopTimer()
				b.ReportMetric(float64(cpuTime(b, s.pid)-cpu)/float64(b.N), "server-cpu-ns/op")
				for _, c := range cs {
					c.ask(b, opDisconnect, nil)
					c.die()
				}
			})
		}
	}
}
