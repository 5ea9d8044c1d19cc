package agent_test

import (
	"runtime"
	"testing"
	"time"

	"heddle/agent"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
)

// TestMemory: a full cache takes about 400 bytes an entry, as docs/hosts.md says, and no more
// however many other paths are asked for, absent ones, and paths of a silent SA included.
func TestMemory(t *testing.T) {
	const entries = 1 << 14
	cfg := agent.Defaults()
	cfg.MaxEntries = entries
	f := newFixture(t, cfg)
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	var out agent.Output
	now, token := f.now, uint64(1<<20)
	// ask asks for n paths from a number on; every third is absent, and without an answer all are.
	ask := func(from, n int, answers bool) {
		for i := range n {
			g := ib.MakeGID(ib.DefaultSubnetPrefix, ib.GUID(1<<32+from+i))
			out.Reset()
			token++
			now = now.Add(time.Microsecond)
			f.core.Step(now, agent.Ask{Token: token, Query: agent.Query{Mask: wire.PathCompDGID, Record: wire.PathRecord{DGID: g}}, Wait: time.Second}, &out)
			sends := append([]agent.Send(nil), out.Sends...)
			for k := range sends {
				m := sends[k].MAD
				if m.AttrID() != wire.AttrPathRecord || !answers {
					continue
				}
				m[3] = byte(ib.MethodGetResp)
				if i%3 == 0 {
					m.SetStatus(ib.StatusSANoRecords)
				} else {
					r := f.values(g)
					r.DLID = ib.LID(1000 + i%40000)
					r.Put(wire.Data(&m))
				}
				out.Reset()
				f.core.Step(now, agent.Received{P: &mad.Packet{Addr: mad.Addr{LID: smLID, QP: 1}, Data: m[:]}}, &out)
			}
		}
	}
	ask(0, 100, true)
	before := heap()
	ask(100, 2*entries, true)
	full := heap()
	if s := f.core.Stats(); s.Entries+s.Negative != entries || s.Entries < entries/2 {
		t.Fatalf("%d entries, %d absent", s.Entries, s.Negative)
	}
	if each := (full - before) / entries; each < 100 || each > 400 {
		t.Errorf("an entry takes %d bytes", each)
	}
	ask(1<<20, 2*entries, true)
	ask(1<<24, 2*cfg.MaxWaiting, false) // none is answered, and all but MaxWaiting are refused
	if s := f.core.Stats(); s.Waiting > cfg.MaxWaiting || s.InFlight > cfg.MaxWaiting {
		t.Errorf("%+v", s)
	}
	now = now.Add(time.Minute)
	out.Reset()
	f.core.Step(now, agent.Timer{}, &out)
	out = agent.Output{}
	after := heap()
	t.Logf("%d bytes an entry; %d KiB when full, %d KiB in the end", (full-before)/entries, (full-before)>>10, (after-before)>>10)
	if grown := after - full; grown > (full-before)/2+4<<20 {
		t.Errorf("%d KiB when full, %d KiB more in the end", (full-before)>>10, grown>>10)
	}
	runtime.KeepAlive(f)
}
