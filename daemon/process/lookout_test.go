package process

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"heddle/ib"
	"heddle/mad"
)

// silentPort takes packets, and answers none.
type silentPort struct {
	mad.Transport
	closed chan struct{}
}

func (p *silentPort) Recv(*mad.Packet) error {
	<-p.closed
	return errors.New("closed")
}

func (p *silentPort) Send(*mad.Packet) error { return nil }

// TestSilentPort: a port that does not answer, or refuses the M_Key, does not slow its manager down.
func TestSilentPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		port := &silentPort{closed: make(chan struct{})}
		defer close(port.closed)
		k := keep(port)
		turn := k.begin()
		k.look.arm(func() ib.MKey { return 0 }, func() { t.Error("the mastership is lost without an answer") })
		<-time.After(time.Second)
		began := time.Now()
		p := mad.Packet{Data: make([]byte, ib.MADLen)}
		for range 20 {
			if err := turn.Send(&p); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took > lookTries*lookWait {
			t.Errorf("20 packets took %v", took)
		}
	})
}
