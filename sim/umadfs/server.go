package umadfs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"heddle/sim"
	"heddle/sim/live"
)

// Driver runs the simulated subnet and is its lock; *live.Driver is one.
type Driver interface {
	// Do calls fn with the subnet caught up to the present, alone.
	Do(fn func(*sim.Subnet))
	// AfterUnlock has f.Flush called once the subnet is free again.
	AfterUnlock(f live.Flusher)
}

// Limits on what clients of the socket can make the simulator hold.
const (
	maxHello    = 64 << 10
	maxMounts   = 1024
	maxNodes    = 64
	helloWithin = 10 * time.Second
	// drainWithin is how long Close waits for the clients to end by
	// themselves before it takes their devices away.
	drainWithin = 3 * time.Second
)

// SocketName is the abstract socket of the umad service of the simulator that
// serves ibsim's protocol as name.
func SocketName(name string) string { return "@" + name + ":umad" }

// Server serves virtual umad devices to the mounts that heddle attach hands
// it. Its methods may be called concurrently.
type Server struct {
	driver   Driver
	ln       *net.UnixListener
	wg       sync.WaitGroup
	pidns    string
	closing  chan struct{}
	shutOnce sync.Once

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	stops map[*conn]int // eventfd of each mount's loop

	// Under the driver's lock.
	hcas    map[hcaID]*hca
	lastNum uint16 // of an agent of any port
}

// Listen opens the service's socket for the simulator known as name; an empty
// name is the simulator's default, "heddle0". Serving begins immediately.
func Listen(d Driver, name string) (*Server, error) {
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: SocketName(name), Net: "unix"})
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("umadfs: another simulator serves %q already: %w", name, err)
		}
		return nil, fmt.Errorf("umadfs: listen: %w", err)
	}
	s := &Server{
		driver: d, ln: ln, pidns: pidNamespace("self"), closing: make(chan struct{}),
		conns: map[net.Conn]struct{}{}, stops: map[*conn]int{}, hcas: map[hcaID]*hca{},
	}
	s.wg.Go(s.accept)
	return s, nil
}

// Close stops the service. The programs on its devices are ended first, by
// their attach processes; devices still in use after a few seconds are taken
// away.
func (s *Server) Close() error {
	s.shutOnce.Do(func() {
		close(s.closing)
		s.ln.Close()
		s.mu.Lock()
		for c := range s.conns {
			c.Close()
		}
		s.mu.Unlock()
		done := make(chan struct{})
		go func() { s.wg.Wait(); close(done) }()
		t := time.NewTimer(drainWithin)
		defer t.Stop()
		select {
		case <-done:
		case <-t.C:
			s.mu.Lock()
			for _, fd := range s.stops {
				_, _ = unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0})
			}
			s.mu.Unlock()
			<-done
		}
	})
	return nil
}

// Unplug removes the umad devices of a node as hot removal does; Replug brings
// them back. The node's links are not touched.
func (s *Server) Unplug(node string) error { return s.plug(node, false) }

// Replug is the reverse of Unplug.
func (s *Server) Replug(node string) error { return s.plug(node, true) }

func (s *Server) plug(node string, in bool) (err error) {
	s.driver.Do(func(sub *sim.Subnet) {
		var id hcaID
		if id, err = idOf(sub, node); err != nil {
			return
		}
		h := s.hcas[id]
		if h == nil {
			err = fmt.Errorf("umadfs: no command is attached to node %q", node)
			return
		}
		for _, p := range h.ports {
			if in {
				p.kernel.Restore()
			} else {
				p.kernel.Remove()
			}
		}
	})
	return err
}

func (s *Server) accept() {
	for {
		c, err := s.ln.AcceptUnix()
		if err != nil {
			select {
			case <-s.closing:
				return
			default:
			}
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(10 * time.Millisecond) // out of descriptors, most likely
			continue
		}
		s.mu.Lock()
		s.conns[c] = struct{}{}
		n := len(s.conns)
		s.mu.Unlock()
		s.wg.Go(func() {
			defer func() {
				c.Close()
				s.mu.Lock()
				delete(s.conns, c)
				s.mu.Unlock()
			}()
			if n > maxMounts {
				sendAnswer(c, answer{Error: "the simulator serves too many attached commands already"})
				return
			}
			s.serve(c)
		})
	}
}

// hello is the message of attach, sent with the /dev/fuse descriptor.
type hello struct {
	Nodes []string `json:"nodes"`
	PIDNS string   `json:"pidns"`
}

// answer is the response: an error, or that the devices exist.
type answer struct {
	Error string `json:"error,omitempty"`
	Ports int    `json:"ports"`
}

// serve handles one attach. Its mount lives as long as it is mounted; the
// socket tells each side when the other one ends.
func (s *Server) serve(c *net.UnixConn) {
	_ = c.SetDeadline(time.Now().Add(helloWithin))
	h, fd, err := recvHello(c)
	if err != nil {
		sendAnswer(c, answer{Error: err.Error()})
		return
	}
	mount, err := s.mount(h, fd)
	if err != nil {
		unix.Close(fd)
		sendAnswer(c, answer{Error: err.Error()})
		return
	}
	s.wg.Go(func() {
		_ = mount.run() // the mount has ended; its error is of no use
		s.mu.Lock()
		delete(s.stops, mount)
		s.mu.Unlock()
	})
	ports := 0
	for _, x := range mount.hcas {
		ports += len(x.ports)
	}
	sendAnswer(c, answer{Ports: ports})
	_ = c.SetDeadline(time.Time{})
	_, _ = io.Copy(io.Discard, io.LimitReader(c, maxHello)) // until the other side ends
}

func (s *Server) mount(h hello, fd int) (*conn, error) {
	if err := checkFUSE(fd); err != nil {
		return nil, err
	}
	if len(h.Nodes) == 0 {
		h.Nodes = []string{""}
	}
	if len(h.Nodes) > maxNodes {
		return nil, fmt.Errorf("at most %d nodes can be attached at once", maxNodes)
	}
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	c := &conn{
		srv: s, fd: fd, stop: stop, direct: s.pidns != "" && s.pidns == h.PIDNS,
		handles: map[uint64]*handle{}, pending: map[uint64]func(){},
	}
	s.driver.Do(func(sub *sim.Subnet) {
		for _, name := range h.Nodes {
			var id hcaID
			if id, err = idOf(sub, name); err != nil {
				break
			}
			x := s.hcas[id]
			if x == nil {
				if x, err = openHCA(sub, id, &s.lastNum); err != nil {
					break
				}
				s.hcas[id] = x
			}
			x.refs++
			c.hcas = append(c.hcas, x)
		}
		if err != nil {
			s.detach(c.hcas)
			return
		}
		c.tree = newTree(c.hcas)
	})
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		unix.Close(stop)
		return nil, err
	}
	s.mu.Lock()
	s.stops[c] = stop
	s.mu.Unlock()
	return c, nil
}

// detach releases a mount's HCAs; the last mount of an HCA closes it. The
// driver's lock is held.
func (s *Server) detach(hcas []*hca) {
	for _, h := range hcas {
		if h.refs--; h.refs == 0 {
			delete(s.hcas, h.id)
			h.close()
		}
	}
}

// checkFUSE verifies that a received descriptor is /dev/fuse, because its
// contents, above all thread IDs, are trusted.
func checkFUSE(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("the descriptor passed: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != unix.Mkdev(10, 229) {
		return errors.New("the descriptor passed is not /dev/fuse")
	}
	return nil
}

// recvHello reads one length-prefixed message and the descriptor with it.
func recvHello(c *net.UnixConn) (h hello, fd int, err error) {
	fd = -1
	defer func() {
		if err != nil && fd >= 0 {
			unix.Close(fd)
			fd = -1
		}
	}()
	var head [4]byte
	oob := make([]byte, unix.CmsgSpace(4*4))
	n, oobn, _, _, err := c.ReadMsgUnix(head[:], oob)
	if err != nil {
		return h, fd, fmt.Errorf("attach sent no message: %w", err)
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return h, fd, fmt.Errorf("control message: %w", err)
	}
	for i := range msgs {
		fds, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			continue
		}
		for _, x := range fds {
			unix.CloseOnExec(x)
			if fd < 0 {
				fd = x
			} else {
				unix.Close(x)
			}
		}
	}
	if fd < 0 {
		return h, fd, errors.New("no descriptor came with the message")
	}
	if _, err := io.ReadFull(c, head[n:]); err != nil {
		return h, fd, fmt.Errorf("message: %w", err)
	}
	size := le.Uint32(head[:])
	if size > maxHello {
		return h, fd, errors.New("message is too long")
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(c, b); err != nil {
		return h, fd, fmt.Errorf("message: %w", err)
	}
	if err := json.Unmarshal(b, &h); err != nil {
		return h, fd, fmt.Errorf("message: %w", err)
	}
	return h, fd, nil
}

// sendHello is the other side of recvHello.
func sendHello(c *net.UnixConn, h hello, fd int) error {
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}
	b = append(le.AppendUint32(nil, uint32(len(b))), b...)
	n, _, err := c.WriteMsgUnix(b, unix.UnixRights(fd), nil)
	if err == nil && n < len(b) {
		_, err = c.Write(b[n:])
	}
	if errors.Is(err, syscall.EPIPE) {
		return nil // refused before it was read; the answer has the reason
	}
	return err
}

func sendAnswer(c net.Conn, a answer) {
	b, err := json.Marshal(a)
	if err == nil {
		_, _ = c.Write(append(le.AppendUint32(nil, uint32(len(b))), b...))
	}
}

func recvAnswer(c net.Conn) (a answer, err error) {
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return a, err
	}
	if le.Uint32(head[:]) > maxHello {
		return a, errors.New("answer is too long")
	}
	b := make([]byte, le.Uint32(head[:]))
	if _, err := io.ReadFull(c, b); err != nil {
		return a, err
	}
	return a, json.Unmarshal(b, &a)
}
