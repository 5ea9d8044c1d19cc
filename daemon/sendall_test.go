package daemon

import (
	"errors"
	"slices"
	"testing"

	"heddle/mad"
)

// listPort takes lists, and refuses some packets.
type listPort struct {
	pipe
	sent []byte
}

func (p *listPort) one(q *mad.Packet) error {
	if q.Data[0] >= 100 {
		return errors.New("refused")
	}
	p.sent = append(p.sent, q.Data[0])
	return nil
}

type batchPort struct{ listPort }

func (p *batchPort) SendAll(ps []mad.Packet) (int, error) {
	for i := range ps {
		if err := p.one(&ps[i]); err != nil {
			return i, err
		}
	}
	return len(ps), nil
}

// burstPort has room for two packets at a time.
type burstPort struct{ listPort }

func (p *burstPort) Bursts() bool                      { return true }
func (p *burstPort) BurstsRMPP() bool                  { return false }
func (p *burstPort) TryRecv(*mad.Packet) (bool, error) { return false, nil }

func (p *burstPort) TrySend(ps []mad.Packet) (int, error) {
	for i := range min(len(ps), 2) {
		if err := p.one(&ps[i]); err != nil {
			return i, err
		}
	}
	return min(len(ps), 2), nil
}

// TestSendAll: whatever a port can do, each packet is sent once and in order, and those that it refuses
// are counted and left out.
func TestSendAll(t *testing.T) {
	for _, c := range []struct {
		list    []byte
		sent    []byte
		refused uint64
	}{
		{nil, nil, 0},
		{[]byte{1}, []byte{1}, 0},
		{[]byte{1, 2, 3, 4}, []byte{1, 2, 3, 4}, 0},
		{[]byte{100, 2, 101, 102, 5, 103}, []byte{2, 5}, 4},
		{[]byte{1, 100}, []byte{1}, 1},
	} {
		var list []mad.Packet
		for _, x := range c.list {
			list = append(list, mad.Packet{Data: []byte{x}})
		}
		single, batch, burst := &listPort{}, &batchPort{}, &burstPort{}
		single.out, burst.out = single.one, burst.one
		for _, p := range []struct {
			port  mad.Transport
			burst mad.Burster
			sent  *[]byte
		}{{single, nil, &single.sent}, {batch, nil, &batch.sent}, {burst, burst, &burst.sent}} {
			refused, why := sendAll(p.port, p.burst, list)
			if refused != c.refused || (why != nil) != (refused > 0) || !slices.Equal(*p.sent, c.sent) {
				t.Errorf("%T, %v: sent %v, refused %d: %v", p.port, c.list, *p.sent, refused, why)
			}
		}
	}
}
