package ibsim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/internal/madtest"
	"heddle/internal/need"
	"heddle/mad"
)

// net1 is a switch with two CAs. The first node is where a client without a
// node name is attached.
const net1 = `Switch	8 "Switch1"
[1]	"Hca1"[1]
[4]	"Hca2"[1]

Hca	2 "Hca1"
[1]	"Switch1"[1]

Hca	2 "Hca2"
[1]	"Switch1"[4]
`

var names atomic.Int32

type server struct {
	name string
	cmd  *exec.Cmd
	out  bytes.Buffer
	done chan struct{}
}

// startIbsim runs Debian's ibsim until the test ends.
func startIbsim(t testing.TB, extra ...string) *server {
	t.Helper()
	path := need.Tool(t, "ibsim")
	file := filepath.Join(t.TempDir(), "net")
	if err := os.WriteFile(file, []byte(net1), 0o644); err != nil {
		t.Fatal(err)
	}
	s := &server{name: fmt.Sprintf("heddle%d.%d", os.Getpid(), names.Add(1)), done: make(chan struct{})}
	s.cmd = exec.Command(path, append(append([]string{"-s", "-n"}, extra...), file)...)
	s.cmd.Env = append(os.Environ(), "IBSIM_SOCKNAME="+s.name)
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.cmd.Wait()
		close(s.done)
	}()
	t.Cleanup(s.kill)
	return s
}

func (s *server) kill() {
	s.cmd.Process.Kill()
	<-s.done
}

// dialWhenUp attaches as soon as the server serves.
func (s *server) dialWhenUp(t testing.TB, o Options) *Conn {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(need.Patience)
	for {
		c, err := Dial(context.Background(), o)
		if err == nil {
			t.Cleanup(func() { c.Close() })
			return c
		}
		if !errors.Is(err, ErrNoServer) {
			t.Fatal(err)
		}
		select {
		case <-tick.C:
		case <-s.done:
			t.Fatalf("ibsim ended: %s", s.out.String())
		case <-limit:
			t.Fatal(err)
		}
	}
}

func TestConformance(t *testing.T) {
	s := startIbsim(t)
	for _, node := range []string{"Hca1", "Switch1"} {
		t.Run(node, func(t *testing.T) {
			madtest.RunTransport(t, func(t *testing.T) mad.Transport {
				return s.dialWhenUp(t, Options{Node: node, SockName: s.name})
			})
		})
	}
}

func TestConformanceUDP(t *testing.T) {
	need.Tool(t, "ibsim")
	port := need.Port(t, 1+stockSlots)
	s := startIbsim(t, "-r", "-l", strconv.Itoa(port))
	madtest.RunTransport(t, func(t *testing.T) mad.Transport {
		return s.dialWhenUp(t, Options{Node: "Hca2", Server: "127.0.0.1", Port: port})
	})
}

func TestControl(t *testing.T) {
	s := startIbsim(t)
	c := s.dialWhenUp(t, Options{SockName: s.name})
	if c.Node() != "Switch1" {
		t.Errorf("default node %q", c.Node())
	}
	if c.MaxInFlight() != max(1, min(2*queueLen()-4, 64)) || c.SegmentsRMPP() {
		t.Errorf("in flight %d, RMPP %v", c.MaxInFlight(), c.SegmentsRMPP())
	}
	c = s.dialWhenUp(t, Options{SockName: s.name, Node: "Hca2"})
	if c.PortGUID() == 0 || c.PortNum() != 1 {
		t.Errorf("port %d has GUID %v", c.PortNum(), c.PortGUID())
	}
	pi, err := c.PortInfo(0)
	if err != nil || pi.LocalPortNum != 1 || pi.PortState != ib.StateInit {
		t.Errorf("PortInfo %+v, %v", pi, err)
	}
	// ibsim 0.10 answers with the attached port whatever is asked.
	if _, err = c.PortInfo(2); err != nil {
		t.Error(err)
	}
}

func TestDialErrors(t *testing.T) {
	_, err := Dial(context.Background(), Options{SockName: "heddle-nobody-serves-this"})
	if !errors.Is(err, ErrNoServer) || !strings.Contains(err.Error(), `socket name "heddle-nobody-serves-this"`) {
		t.Errorf("no server: %v", err)
	}
	if _, err = Dial(context.Background(), Options{Server: "127.0.0.1", Port: 9}); !errors.Is(err, ErrNoServer) {
		t.Errorf("no UDP server: %v", err)
	}
	if _, err = Dial(context.Background(), Options{Node: strings.Repeat("x", 32)}); err == nil {
		t.Error("a name of 32 bytes was taken")
	}
	s := startIbsim(t)
	s.dialWhenUp(t, Options{SockName: s.name, Node: "Hca1", IsSM: true})
	if _, err = Dial(context.Background(), Options{SockName: s.name, Node: "Hca9"}); !errors.Is(err, ErrRefused) {
		t.Errorf("unknown node: %v", err)
	}
	if _, err = Dial(context.Background(), Options{SockName: s.name, Node: "Hca1", IsSM: true}); !errors.Is(err, ErrRefused) {
		t.Errorf("second SM: %v", err)
	}
	for range 9 {
		s.dialWhenUp(t, Options{SockName: s.name})
	}
	if _, err = Dial(context.Background(), Options{SockName: s.name}); !errors.Is(err, ErrRefused) {
		t.Errorf("eleventh client: %v", err)
	}
}

// A server that takes the CONNECT and says nothing: the context decides.
func TestDialSilentServer(t *testing.T) {
	s := startIbsim(t)
	s.dialWhenUp(t, Options{SockName: s.name})
	s.cmd.Process.Signal(syscall.SIGSTOP)
	defer s.cmd.Process.Signal(syscall.SIGCONT)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, Options{SockName: s.name}); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("a stopped server: %v", err)
	}
}

// Closing gives the slot and the IsSM bit back, many times over.
func TestCloseFreesSlot(t *testing.T) {
	s := startIbsim(t)
	w := s.dialWhenUp(t, Options{SockName: s.name, Node: "Hca1"})
	for range 30 {
		c := s.dialWhenUp(t, Options{SockName: s.name, Node: "Hca1", IsSM: true})
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	pi, err := w.PortInfo(0)
	if err != nil || pi.CapabilityMask&ib.CapIsSM != 0 {
		t.Errorf("IsSM is still set: %v, %v", pi.CapabilityMask, err)
	}
}

func TestServerDies(t *testing.T) {
	for _, quiet := range []bool{true, false} {
		t.Run(fmt.Sprintf("quiet=%v", quiet), func(t *testing.T) {
			s := startIbsim(t)
			c := s.dialWhenUp(t, Options{SockName: s.name})
			ended := make(chan error)
			go func() {
				var p mad.Packet
				ended <- c.Recv(&p)
			}()
			s.kill()
			if !quiet {
				var m ib.MAD
				smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, nil)
				if err := c.Send(&mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Data: m[:]}); !errors.Is(err, ErrLost) {
					t.Errorf("send: %v", err)
				}
			}
			select {
			case err := <-ended:
				if !errors.Is(err, ErrLost) {
					t.Errorf("receive: %v", err)
				}
			case <-time.After(need.Patience):
				t.Fatal("Recv did not notice")
			}
			if err := c.SetIsSM(true); !errors.Is(err, ErrLost) {
				t.Errorf("SetIsSM: %v", err)
			}
		})
	}
}

// Two SMs on one fabric: an SMInfo request finds the other one, and its
// answer, with all 64 bits of the transaction ID kept, finds its way back.
func TestRequestBetweenClients(t *testing.T) {
	s := startIbsim(t)
	a := s.dialWhenUp(t, Options{SockName: s.name, Node: "Hca1"})
	b := s.dialWhenUp(t, Options{SockName: s.name, Node: "Hca2"})
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, smp.AttrSMInfo, 0, 0, []byte{1, 4})
	m.SetTID(0x1234)
	req := mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Data: m[:]}

	// Nobody is SM there: the request comes back.
	var p mad.Packet
	if err := a.Send(&req); err != nil {
		t.Fatal(err)
	}
	if err := a.Recv(&p); err != nil || p.Status != mad.Failed {
		t.Fatalf("without an SM: %v, status %d", err, p.Status)
	}
	if err := b.SetIsSM(true); err != nil {
		t.Fatal(err)
	}
	if err := a.Send(&req); err != nil {
		t.Fatal(err)
	}
	if err := b.Recv(&p); err != nil || p.Status != mad.Received {
		t.Fatalf("at the SM: %v, status %d", err, p.Status)
	}
	r := (*ib.MAD)(p.Data)
	if r.Method() != ib.MethodGet || r.AttrID() != smp.AttrSMInfo || r.TID()&0xFFFFFFFFFFFF != 0x1234 {
		t.Fatalf("method %#x attribute %#x transaction %#x", r.Method(), r.AttrID(), r.TID())
	}
	smp.Respond(r, ib.StatusOK)
	if err := b.Send(&mad.Packet{Addr: p.Addr, Data: r[:]}); err != nil {
		t.Fatal(err)
	}
	if err := a.Recv(&p); err != nil || p.Status != mad.Received || uint32((*ib.MAD)(p.Data).TID()) != 0x1234 {
		t.Fatalf("answer: %v, status %d", err, p.Status)
	}
}

// BenchmarkRoundTrip has one goroutine, as a raw client would.
func BenchmarkRoundTrip(b *testing.B) {
	s := startIbsim(b)
	for _, w := range []int{1, 8, 16} {
		b.Run(fmt.Sprintf("window=%d", w), func(b *testing.B) {
			c := s.dialWhenUp(b, Options{SockName: s.name, Node: "Hca1"})
			req := neighbor()
			var p mad.Packet
			b.ReportAllocs()
			out := 0
			for b.Loop() {
				if out == w {
					if err := c.Recv(&p); err != nil {
						b.Fatal(err)
					}
					out--
				}
				if err := c.Send(req); err != nil {
					b.Fatal(err)
				}
				out++
			}
			for ; out > 0; out-- {
				if err := c.Recv(&p); err != nil {
					b.Fatal(err)
				}
			}
			c.Close()
		})
	}
}

// neighbor asks the switch next to Hca1.
func neighbor() *mad.Packet {
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, []byte{1})
	return &mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Data: m[:]}
}

// BenchmarkDeepWindow has a reader of its own, and windows beyond what the
// queues hold: how deep is worth it?
func BenchmarkDeepWindow(b *testing.B) {
	s := startIbsim(b)
	for _, w := range []int{1, 8, 16, 64} {
		b.Run(fmt.Sprintf("window=%d", w), func(b *testing.B) {
			c := s.dialWhenUp(b, Options{SockName: s.name, Node: "Hca1"})
			room := make(chan struct{}, w)
			for range w {
				room <- struct{}{}
			}
			go func() {
				var p mad.Packet
				for c.Recv(&p) == nil {
					room <- struct{}{}
				}
			}()
			req := neighbor()
			for b.Loop() {
				<-room
				if err := c.Send(req); err != nil {
					b.Fatal(err)
				}
			}
			for range w {
				<-room
			}
			c.Close()
		})
	}
}
