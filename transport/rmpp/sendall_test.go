package rmpp

import (
	"errors"
	"testing"

	"heddle/ib"
	"heddle/ib/sa"
	"heddle/mad"
)

// lists is a transport that notes how it is called.
type lists struct {
	*end
	calls []int // packets of each call of SendAll
	room  int
}

func (l *lists) SendAll(ps []mad.Packet) (int, error) {
	l.calls = append(l.calls, len(ps))
	if len(ps) > l.room {
		return l.room, errGone
	}
	l.room -= len(ps)
	return len(ps), nil
}

// TestSendAll: single MADs go through the lists of the transport beneath, messages of segments between
// them do not, and the first error ends the list.
func TestSendAll(t *testing.T) {
	single := func() mad.Packet {
		var m ib.MAD
		sa.New(&m, ib.MethodGet, sa.AttrMultiPathRecord, 0, 0)
		return mad.Packet{Addr: mad.Addr{LID: 2, QP: 1}, LocalQP: 1, Data: m[:]}
	}
	long := single()
	long.Data = message(ib.MethodGetMulti, 1, 1000)
	list := []mad.Packet{single(), single(), long, single()}

	a, b := wire(false)
	l := &lists{end: a, room: 3}
	p := Over(l)
	defer p.Close()
	if n, err := p.SendAll(list); n != 4 || err != nil {
		t.Fatal(n, err)
	}
	if len(l.calls) != 2 || l.calls[0] != 2 || l.calls[1] != 1 {
		t.Errorf("lists of %v", l.calls)
	}
	if q := <-b.in; q.Data[25] != byte(mad.RMPPData) {
		t.Errorf("the message went out as type %d", q.Data[25])
	}
	l.room = 1
	if n, err := p.SendAll(list); n != 1 || !errors.Is(err, errGone) {
		t.Errorf("%d sent: %v", n, err)
	}

	a, b = wire(false) // which takes one packet at a time
	p2 := Over(a)
	if n, err := p2.SendAll([]mad.Packet{single(), single()}); n != 2 || err != nil || len(b.in) != 2 {
		t.Errorf("%d sent, %d arrived: %v", n, len(b.in), err)
	}
	p2.Close()
	if n, err := p2.SendAll(list); n != 0 || err == nil {
		t.Errorf("a closed port sent %d", n)
	}
}
