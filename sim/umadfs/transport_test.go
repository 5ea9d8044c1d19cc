package umadfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/internal/madtest"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/sim"
	"heddle/transport/rmpp"
	"heddle/transport/umad"
)

// inChild reports whether this process is a copy of the test binary that runs
// attached to a node. Otherwise it runs the calling test there and reports
// what it said.
func inChild(t *testing.T, l func() *lab, node string) bool {
	t.Helper()
	if os.Getenv(childEnv) == "suite" {
		return true
	}
	out := l().run(0, node, l().self("suite", "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout="+(2*need.Patience).String())...)
	t.Log("in the attached process:\n" + tail(out, 6000))
	return false
}

func init() { children["suite"] = func() int { return suiteRun() } }

// TestTransport runs the suite of mad.Transport on transport/umad.
func TestTransport(t *testing.T) {
	var l *lab
	if !inChild(t, func() *lab {
		if l == nil {
			l = newLab(t, smallNet(t), sim.Config{Seed: 1})
		}
		return l
	}, "H1") {
		return
	}
	madtest.RunTransport(t, func(t *testing.T) mad.Transport {
		p, err := umad.OpenPort(umad.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	})
}

// children of TestUmad: one process on node H2 (and H3) beside an opensm on H1.
func init() {
	children["busy"] = busyChild
	children["separate"] = separateChild
	children["client"] = clientChild
	children["lost"] = lostChild
	children["rate"] = rateChild
	children["own server"] = ownServerChild
	children["own client"] = ownClientChild
}

func complain(format string, a ...any) int {
	fmt.Printf("FAIL "+format+"\n", a...)
	return 1
}

// busyChild: a second manager on a port is told so; a client is welcome.
func busyChild() int {
	p, err := umad.OpenPort(umad.Options{})
	if err == nil {
		p.Close()
		return complain("a second manager got the port")
	}
	if !errors.Is(err, umad.ErrBusy) {
		return complain("error is %v", err)
	}
	fmt.Println(err)
	c, err := umad.OpenPort(umad.Options{Client: true})
	if err != nil {
		return complain("client: %v", err)
	}
	defer c.Close()
	if err := c.SetIsSM(true); !errors.Is(err, umad.ErrBusy) {
		return complain("IsSM beside opensm: %v", err)
	}
	return 0
}

// separateChild: QP0 and QP1 on different devices.
func separateChild() int {
	p, err := umad.OpenPort(umad.Options{Name: "heddle0", SMI: "heddle1/1"})
	if err != nil {
		return complain("%v", err)
	}
	defer p.Close()
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, nil)
	k := mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Timeout: need.Patience, Data: m[:]}
	if err := p.Send(&k); err != nil {
		return complain("%v", err)
	}
	var r mad.Packet
	if err := p.Recv(&r); err != nil || r.Status != mad.Received {
		return complain("status %d, %v", r.Status, err)
	}
	var ni smp.NodeInfo
	if err := ni.Decode(r.Data[64 : 64+smp.NodeInfoLen]); err != nil {
		return complain("%v", err)
	}
	devs, err := umad.Discover("")
	if err != nil || len(devs) != 2 || ni.PortGUID != devs[1].PortGUID || p.PortGUID() != devs[0].PortGUID {
		return complain("%v answered for %v, %v", ni.PortGUID, devs, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Recv(&r) }()
	p.Close()
	if err := <-ended; !errors.Is(err, umad.ErrClosed) {
		return complain("Recv after Close: %v", err)
	}
	return 0
}

// saGetTable makes an SA request.
func saGetTable(attr ib.AttrID, tid uint32) *ib.MAD {
	var m ib.MAD
	m.SetHeader(ib.ClassSA, 2, ib.MethodGetTable, attr, 0)
	m.SetTID(uint64(tid))
	return &m
}

// clientChild asks opensm's SA for a table longer than the transport's
// standing buffer, and meets a time-out.
func clientChild() int {
	p, err := umad.OpenPort(umad.Options{Client: true})
	if err != nil {
		return complain("%v", err)
	}
	defer p.Close()
	d := p.Device()
	const attrPathRecord, attrNodeRecord = 0x35, 0x11
	var r mad.Packet
	k := mad.Packet{Addr: mad.Addr{LID: d.SMLID, QP: 1, PKeyIndex: d.DefaultPKeyIndex()}, LocalQP: 1, Timeout: need.Patience}
	for i, q := range []struct {
		attr      ib.AttrID
		size, min int
	}{{attrNodeRecord, 112, 8}, {attrPathRecord, 64, 64}} {
		k.Data = saGetTable(q.attr, uint32(100+i))[:]
		if err := p.Send(&k); err != nil {
			return complain("%v", err)
		}
		if err := p.Recv(&r); err != nil || r.Status != mad.Received {
			return complain("status %d, %v", r.Status, err)
		}
		n := (len(r.Data) - 56) / q.size
		fmt.Printf("attribute %#x: %d records in %d bytes\n", uint16(q.attr), n, len(r.Data))
		if n < q.min || (len(r.Data)-56)%q.size != 0 || r.LocalQP != 1 || r.Addr.QP != 1 || r.Addr.LID != d.SMLID {
			return complain("%d records from %+v, want at least %d", n, r.Addr, q.min)
		}
	}
	k.Addr.LID = 0xBF00 // nobody
	k.Timeout = 60 * time.Millisecond
	k.Data = saGetTable(attrNodeRecord, 200)[:]
	start := time.Now()
	if err := p.Send(&k); err != nil {
		return complain("%v", err)
	}
	if err := p.Recv(&r); err != nil || r.Status != mad.Failed || len(r.Data) != 24 || (*ib.MAD)(append(r.Data, make([]byte, 256)...)).TID()&0xFFFFFFFF != 200 {
		return complain("time-out: status %d, %d bytes, %v", r.Status, len(r.Data), err)
	}
	if d := time.Since(start); d < 60*time.Millisecond {
		return complain("time-out after %v", d)
	}
	return 0
}

// ownTable is the answer of ownServerChild to a request.
func ownTable(request []byte) []byte {
	h := append([]byte(nil), request[:56]...)
	h[3] |= byte(ib.MethodResponseBit)
	clear(h[24:36])
	h[26] = 1
	for i := range 100_000 {
		h = append(h, byte(i*7/5), request[15])
	}
	return h
}

// ownServerChild is an SA that does RMPP by itself: tables as answers, requests of
// several segments sent back as answers.
func ownServerChild() int {
	raw, err := umad.OpenPort(umad.Options{OwnRMPP: true})
	if err != nil {
		return complain("%v", err)
	}
	p := rmpp.Over(raw)
	defer p.Close()
	fmt.Printf("SERVING %d .\n", raw.Device().LID)
	var k mad.Packet
	for p.Recv(&k) == nil {
		if k.Status != mad.Received || ib.Class(k.Data[1]) != ib.ClassSA {
			continue
		}
		r := mad.Packet{Addr: k.Addr, LocalQP: 1}
		switch ib.Method(k.Data[3]) {
		case ib.MethodGetTable:
			r.Data = ownTable(k.Data)
		case ib.MethodGetMulti:
			r.Data = append([]byte(nil), k.Data...)
			r.Data[3] |= byte(ib.MethodResponseBit)
			clear(r.Data[24:36])
			r.Data[26] = 1
		default:
			continue
		}
		if err := p.Send(&r); err != nil && !errors.Is(err, mad.ErrRMPPBusy) {
			return complain("%v", err)
		}
	}
	return 0
}

// ownClientChild asks opensm's SA, whose kernel does RMPP, doing it itself, and
// ownServerChild's in both ways.
func ownClientChild() int {
	lid, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return complain("%v", err)
	}
	for _, own := range []bool{true, false} {
		raw, err := umad.OpenPort(umad.Options{Client: true, OwnRMPP: own})
		if err != nil {
			return complain("%v", err)
		}
		var p mad.Transport = raw
		if own {
			p = rmpp.Over(raw)
		}
		d := raw.Device()
		ask := func(to ib.LID, m []byte) ([]byte, error) {
			k := mad.Packet{Addr: mad.Addr{LID: to, QP: 1, PKeyIndex: d.DefaultPKeyIndex()}, LocalQP: 1, Timeout: need.Patience, Data: m}
			if err := p.Send(&k); err != nil {
				return nil, err
			}
			var r mad.Packet
			if err := p.Recv(&r); err != nil || r.Status != mad.Received {
				return nil, fmt.Errorf("status %d, %w", r.Status, err)
			}
			return r.Data, nil
		}
		paths, err := ask(d.SMLID, saGetTable(0x35, 1)[:])
		if n := (len(paths) - 56) / 64; err != nil || n < 64 || (len(paths)-56)%64 != 0 {
			return complain("own %v: %d paths from opensm, %v", own, n, err)
		}
		q := saGetTable(0x11, 2)
		table, err := ask(ib.LID(lid), q[:])
		if err != nil || !bytes.Equal(table[56:], ownTable(q[:])[56:]) {
			return complain("own %v: a table of %d bytes, %v", own, len(table), err)
		}
		var m ib.MAD
		m.SetHeader(ib.ClassSA, 2, ib.MethodGetMulti, 0x3A, 0)
		m.SetTID(3)
		m[26] = 1
		multi := append(m[:56], table[56:5000]...)
		back, err := ask(ib.LID(lid), multi)
		if err != nil || !bytes.Equal(back[56:], multi[56:]) {
			return complain("own %v: %d bytes came back of %d, %v", own, len(back), len(multi), err)
		}
		p.Close()
	}
	return 0
}

// TestOwnRMPP: segmentation by the process, against the kernel's and itself.
func TestOwnRMPP(t *testing.T) {
	t.Parallel()
	tool(t, "opensm")
	l := newLab(t, smallNet(t), sim.Config{Seed: 1})
	l.opensm("H1").wait("SUBNET UP", need.Patience)
	server := l.start("H3", l.self("own server")...)
	server.wait(" .\n", need.Patience)
	lid := strings.Fields(server.log.String())[1]
	l.run(0, "H2", l.self("own client", lid)...)
}

// openWithin opens a port that another process is about to plug in.
func openWithin(limit time.Duration, o umad.Options) (*umad.Port, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		p, err := umad.OpenPort(o)
		if err == nil || !errors.Is(err, umad.ErrNoDevice) && !errors.Is(err, umad.ErrRemoved) {
			return p, err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, err
		}
	}
}

// lostChild loses its device and gets it back.
func lostChild() int {
	p, err := umad.OpenPort(umad.Options{Name: "heddle0/1"})
	if err != nil {
		return complain("%v", err)
	}
	if err := p.SetIsSM(true); err != nil {
		return complain("%v", err)
	}
	fmt.Println("REMOVE")
	var r mad.Packet
	for err == nil { // opensm asks who the other SM is
		err = p.Recv(&r)
	}
	if !errors.Is(err, umad.ErrRemoved) {
		return complain("Recv: %v", err)
	}
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, nil)
	k := mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Timeout: need.Patience, Data: m[:]}
	if err := p.Send(&k); !errors.Is(err, umad.ErrRemoved) {
		return complain("Send: %v", err)
	}
	if _, err := umad.OpenPort(umad.Options{Name: "heddle0/1"}); !errors.Is(err, umad.ErrNoDevice) {
		return complain("Open of a removed device: %v", err)
	}
	fmt.Println("REPLUG")
	p.Close()
	// The device is known by its port GUID, whatever its name is now.
	q, err := openWithin(need.Patience, umad.Options{Name: p.PortGUID().String()})
	if err != nil {
		return complain("the device came back: %v", err)
	}
	defer q.Close()
	err = q.Send(&k)
	for err == nil && (len(r.Data) < ib.MADLen || r.Data[3] != byte(ib.MethodGetResp)) {
		err = q.Recv(&r)
	}
	if err != nil || r.Status != mad.Received {
		return complain("after the device came back: status %d, %v", r.Status, err)
	}
	if err := q.SetIsSM(true); err != nil {
		return complain("%v", err)
	}
	return 0
}

func TestUmad(t *testing.T) {
	t.Parallel()
	tool(t, "opensm")
	l := newLab(t, smallNet(t), sim.Config{Seed: 1})
	l.opensm("H1").wait("SUBNET UP", need.Patience)
	out := l.run(0, "H1", l.self("busy")...)
	if !strings.Contains(out, "another subnet manager runs on this port") || !strings.Contains(out, "heddle0/1 (umad0)") {
		t.Errorf("the diagnosis is %q", out)
	}
	l.run(0, "H2,H3", l.self("separate")...)
	l.run(0, "H1", l.self("client")...)
	l.run(0, "H3", l.self("client")...)
	j := l.start("H2", l.self("lost")...)
	j.wait("REMOVE", need.Patience)
	if err := l.server.Unplug("H2"); err != nil {
		t.Fatal(err)
	}
	j.wait("REPLUG", need.Patience)
	if err := l.server.Replug("H2"); err != nil {
		t.Fatal(err)
	}
	if <-j.done; j.code != 0 {
		t.Errorf("exit status %d:\n%s", j.code, j.log.String())
	}
}

// rateChild measures directed-route requests to its own port.
func rateChild() int {
	p, err := umad.OpenPort(umad.Options{})
	if err != nil {
		return complain("%v", err)
	}
	defer p.Close()
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, []byte{1})
	k := mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Timeout: need.Patience, Data: m[:]}
	var r mad.Packet
	for _, window := range []int{1, 4, 32} {
		const n = 20000
		sent := 0
		start := time.Now()
		for got := range n {
			for sent < n && sent-got < window {
				sent++
				m.SetTID(uint64(sent))
				if err := p.Send(&k); err != nil {
					return complain("%v", err)
				}
			}
			if err := p.Recv(&r); err != nil || r.Status != mad.Received {
				return complain("status %d, %v", r.Status, err)
			}
		}
		d := time.Since(start)
		fmt.Printf("window %d: %.0f/s, %v each\n", window, n/d.Seconds(), d/n)
	}
	return 0
}

// BenchmarkRoundTrip prints the rate of one client on one virtual device.
func BenchmarkRoundTrip(b *testing.B) {
	l := newLab(b, smallNet(b), sim.Config{Seed: 1})
	for b.Loop() {
		b.Log("\n" + l.run(0, "H1", l.self("rate")...))
	}
}

// TestAttach: exit status, output, signals, environment, and the errors of failed
// attaches.
func TestAttach(t *testing.T) {
	l := newLab(t, smallNet(t), sim.Config{Seed: 1})
	if out := l.run(7, "H1", "sh", "-c", "ls /dev/infiniband; cat /sys/class/infiniband_mad/umad0/ibdev; env | grep -c "+stageEnv+"; exit 7"); out != "issm0\numad0\nheddle0\n0\n" {
		t.Errorf("output %q", out)
	}
	l.run(128+9, "H1", "sh", "-c", "kill -9 $$")
	if out := l.run(0, "H6", "ls", "/sys/class/infiniband/heddle0/ports"); out != "1\n2\n" {
		t.Errorf("ports of a node with two: %q", out)
	}
	if out := l.run(0, "S0", "cat", "/sys/class/infiniband/heddle0/node_type", "/sys/class/infiniband/heddle0/ports/0/state"); out != "2: SWITCH\n4: ACTIVE\n" {
		t.Errorf("switch: %q", out)
	}
	var out bytes.Buffer
	if _, err := l.command("nobody", &out, "true").Run(t.Context()); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("unknown node: %v", err)
	}
	if _, err := l.command("H1", &out, "no-such-program").Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("unknown program: %v", err)
	}
	c := l.command("H1", &out, "true")
	c.Socket = "nobody-serves-this"
	if _, err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "heddle sim --socket nobody-serves-this") {
		t.Errorf("no simulator: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	j := l.command("H1", &out, "sh", "-c", "trap 'exit 5' TERM; echo ready; while :; do read x; done < /dev/infiniband/umad0")
	j.Started = func(int) { cancel() }
	if code, err := j.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: exit status %d, %v", code, err)
	}
	// The mounts are nobody else's business.
	if b, err := os.ReadFile("/proc/self/mounts"); err != nil || bytes.Contains(b, []byte("heddle")) {
		t.Errorf("mounts are left behind: %v\n%s", err, b)
	}
}

// TestSimulatorEnds: commands end with their simulator.
func TestSimulatorEnds(t *testing.T) {
	l := newLab(t, smallNet(t), sim.Config{Seed: 1})
	j := l.start("H1", "sh", "-c", "echo ready; exec sleep 100")
	j.wait("ready", need.Patience)
	l.server.Close()
	<-j.done
	if j.err == nil || !strings.Contains(j.err.Error(), "the simulator ended") {
		t.Errorf("exit status %d, %v", j.code, j.err)
	}
}

// TestSignals: signals to attach reach the command, whose exit status is attach's; a
// killed attach kills the command.
func TestSignals(t *testing.T) {
	l := newLab(t, smallNet(t), sim.Config{Seed: 1})
	attach := func(script string) (*exec.Cmd, *watcher) {
		t.Helper()
		argv := l.self("attach", l.name, "H1", "sh", "-c", script)
		cmd := exec.CommandContext(t.Context(), argv[2], argv[3:]...)
		cmd.Env = append(l.env, argv[1])
		w := newWatcher()
		cmd.Stdout, cmd.Stderr = w, w
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if !w.wait("ready", 1, need.Patience) {
			t.Fatalf("the command did not start: %s", w.String())
		}
		return cmd, w
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1} {
		cmd, w := attach("trap 'exit 42' TERM HUP USR1; echo ready; while :; do sleep 0.05; done")
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 42 {
			t.Errorf("%v: exit status %d, %v\n%s", sig, cmd.ProcessState.ExitCode(), err, w.String())
		}
	}
	// The command holds the output open as long as it lives.
	r, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	argv := l.self("attach", l.name, "H1", "sh", "-c", "echo ready; exec sleep 100")
	cmd := exec.CommandContext(t.Context(), argv[2], argv[3:]...)
	cmd.Env = append(l.env, argv[1])
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.Close()
	_ = r.SetReadDeadline(time.Now().Add(need.Patience))
	if _, err := io.ReadFull(r, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if _, err := r.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the command still runs: %v", err)
	}
}
