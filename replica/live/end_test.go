package live

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"heddle/internal/need"
	"heddle/store/journal"
)

// slowNote is a store whose notes are not written before open is closed.
type slowNote struct {
	journal.Store
	once    sync.Once
	entered chan struct{}
	open    <-chan struct{}
}

func (s *slowNote) SetNote(b []byte) error {
	s.once.Do(func() { close(s.entered) })
	<-s.open
	return s.Store.SetNote(b)
}

// TestEnd: Run ends although the disk is at work, and more waits for the pair's goroutine than
// fits in its queue.
func TestEnd(t *testing.T) {
	b := newTestbed(t, 1)
	x := b.site[0]
	port, err := b.d.Port(x.name())
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	x.port = port
	cfg := x.config()
	s := &slowNote{Store: journal.NewMemory(5), entered: make(chan struct{})}
	cfg.Store = s
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.open = p.done
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	<-s.entered
	var again func()
	again = func() {
		for {
			select {
			case p.events <- again:
			default:
				return
			}
		}
	}
	p.post(func() { cancel(); again() })
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(need.Patience):
		t.Fatal("Run does not end")
	}
}

// TestTurns: a loop that is held up does not turn, and one that runs or has ended is no fault.
func TestTurns(t *testing.T) {
	b, a := begin(t, 2)
	p := a.pair()
	if err := p.Turns(t.Context()); err != nil {
		t.Error(err)
	}
	held, free := make(chan struct{}), make(chan struct{})
	p.post(func() { close(held); <-free })
	<-held
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Turns(late); !errors.Is(err, context.Canceled) {
		t.Errorf("a loop that is held up: %v", err)
	}
	close(free)
	if err := p.Turns(t.Context()); err != nil {
		t.Error(err)
	}
	a.kill()
	if err := p.Turns(t.Context()); err != nil {
		t.Error(err)
	}
	b.put("the other one goes on")
}

// TestPlaces: one host cannot take all places of connections without a greeting.
func TestPlaces(t *testing.T) {
	host := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }
	var p places
	taken := 0
	for range 2 * greetings {
		if p.take(hostOf(host("10.0.0.1"))) {
			taken++
		}
	}
	if taken != greetingsEach {
		t.Errorf("one host has %d places, not %d", taken, greetingsEach)
	}
	peer := hostOf(host("10.0.0.2"))
	if !p.take(peer) {
		t.Error("no place is left for another host")
	}
	p.leave(peer)
	if len(p.each) != 1 || p.all != greetingsEach {
		t.Errorf("%d hosts and %d places remain", len(p.each), p.all)
	}
	if hostOf(host("fd00::1")) != hostOf(host("fd00::2")) || hostOf(host("10.0.0.1")) != hostOf(host("::ffff:10.0.0.1")) {
		t.Error("one host counts as two")
	}
}
