package daemon

import (
	"errors"
	"log/slog"
	"slices"
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sa"
	"heddle/sm"
	"heddle/store"
)

// cutPort is a port that takes nothing any more, and that of a manager whose queries another one answers.
type cutPort struct {
	pipe
	back []uint64 // transactions of the requests that it got back
}

var errCut = errors.New("the port was cut")

func (p *cutPort) Send(*mad.Packet) error            { return errCut }
func (p *cutPort) Bursts() bool                      { return true }
func (p *cutPort) BurstsRMPP() bool                  { return false }
func (p *cutPort) TryRecv(*mad.Packet) (bool, error) { return false, errCut }
func (p *cutPort) TrySend([]mad.Packet) (int, error) { return 0, errCut }

func (p *cutPort) Return(q *mad.Packet) bool {
	if m := (*ib.MAD)(q.Data); m.Method() == ib.MethodGet {
		p.back = append(p.back, m.TID())
		return true
	}
	return false
}

// TestGivenBack: queries to which no answer can be sent, because the port was cut, go back to it as they
// came, those that still wait too. Changes do not, and no answer to one is made a query.
func TestGivenBack(t *testing.T) {
	port := &cutPort{}
	d := New(Config{Port: port, Core: sm.Defaults(), Store: store.NewMemory(), Log: slog.New(slog.DiscardHandler)})
	ask := func(tid uint64, method ib.Method) *mad.Packet {
		var m ib.MAD
		wire.New(&m, method, wire.AttrClassPortInfo, 0, 0)
		if method != ib.MethodGet {
			m.SetAttrID(wire.AttrServiceRecord)
		}
		m.SetTID(tid)
		return &mad.Packet{Addr: mad.Addr{LID: 5, QP: 1}, LocalQP: 1, Data: m[:]}
	}
	stats := &d.sa.workers[0]
	d.reply(ask(1, ib.MethodGet), &mad.Packet{}, stats)
	w := worker{d: d, from: d.queries, burst: port, stats: stats}
	for i, tid := range []uint64{2, 3} {
		w.of[i], w.answers[i] = &query{p: ask(tid, ib.MethodGet)}, mad.Packet{}
	}
	w.held = 2
	w.release()
	d.reply(ask(4, ib.MethodSet), &mad.Packet{}, stats)
	change := ask(5, ib.MethodSet)
	change.Data[3] = byte(ib.MethodGetResp)
	for _, burst := range []mad.Burster{nil, port} { // nobody else may answer a change
		(&saLoop{d: d, burst: burst}).Replies([]sa.Reply{{To: change.Addr, Data: change.Data}})
	}
	d.sa.workers, d.sa.tables = nil, nil // nobody takes what waits
	end := d.administer(nil)
	for _, x := range []struct {
		to *queue
		p  *mad.Packet
	}{{d.queries, ask(6, ib.MethodGet)}, {d.changes, ask(7, ib.MethodSet)}} {
		x.to.mu.Lock()
		x.to.fair.put(5, query{p: x.p}) // nobody is woken
		x.to.mu.Unlock()
	}
	end()
	if want := []uint64{1, 2, 3, 6}; !slices.Equal(port.back, want) {
		t.Errorf("queries %v went back, want %v", port.back, want)
	}
}
