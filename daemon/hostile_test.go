package daemon_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/sim/live"
	"heddle/transport/rmpp"
)

// asker is a host's port that sends one request at a time.
type asker struct {
	t    *testing.T
	port *live.Port
	sm   ib.LID
	tid  uint64
	got  chan reply
}

type reply struct {
	tid    uint64
	status ib.Status
}

func (r *rig) asker(node string, smLID ib.LID) *asker {
	r.t.Helper()
	port, err := r.sim.Port(node)
	if err != nil {
		r.t.Fatal(err)
	}
	a := &asker{t: r.t, port: port, sm: smLID, got: make(chan reply, 1<<14)}
	var reading sync.WaitGroup
	reading.Go(func() {
		var p mad.Packet
		for port.Recv(&p) == nil {
			if p.Status == mad.Received && ib.Class(p.Data[1]) == ib.ClassSA && ib.Method(p.Data[3]).IsResponse() {
				a.got <- reply{binary.BigEndian.Uint64(p.Data[8:]) & (1<<48 - 1), ib.Status(binary.BigEndian.Uint16(p.Data[4:]))}
			}
		}
	})
	r.t.Cleanup(func() {
		port.Close()
		go func() {
			for range a.got {
			}
		}()
		reading.Wait()
		close(a.got)
	})
	return a
}

func (a *asker) send(m *ib.MAD) {
	if err := a.port.Send(&mad.Packet{Addr: mad.Addr{LID: a.sm, QP: 1}, LocalQP: 1, Data: m[:]}); err != nil {
		a.t.Error(err)
	}
}

// ask sends m and returns the status of its answer; without one the test fails.
func (a *asker) ask(m *ib.MAD) ib.Status {
	a.tid++
	m.SetTID(a.tid)
	a.send(m)
	limit := time.After(need.Patience)
	for {
		select {
		case r := <-a.got:
			if r.tid == a.tid {
				return r.status
			}
		case <-limit:
			a.t.Errorf("a request to the SA was not answered")
			return ib.StatusBusy
		}
	}
}

// nonsense is a MAD of a hostile sender: an SA request with random contents, or random bytes.
func nonsense(rng *rand.Rand, smLID ib.LID) *ib.MAD {
	methods := []ib.Method{
		ib.MethodGet, ib.MethodGetTable, ib.MethodSet, ib.MethodDelete, ib.MethodGetMulti, ib.MethodGetTraceTable,
		ib.MethodReport, ib.MethodReportResp, ib.MethodTrap,
	}
	var m ib.MAD
	for i := range m {
		m[i] = byte(rng.Uint32())
	}
	if rng.IntN(8) == 0 {
		m[1] = byte(ib.ClassSA)
		return &m
	}
	attrs := []ib.AttrID{
		wire.AttrClassPortInfo, wire.AttrInformInfo, wire.AttrNodeRecord, wire.AttrPortInfoRecord, wire.AttrLinkRecord,
		wire.AttrPathRecord, wire.AttrMCMemberRecord, wire.AttrServiceRecord, wire.AttrGUIDInfoRecord,
		wire.AttrMultiPathRecord, wire.AttrInformInfoRecord, wire.AttrPKeyTableRecord, wire.AttrVLArbRecord,
		wire.AttrTraceRecord, wire.AttrLFTRecord, wire.AttrMFTRecord, wire.AttrSLtoVLRecord, ib.AttrID(rng.Uint32()),
	}
	data := m
	wire.New(&m, methods[rng.IntN(len(methods))], attrs[rng.IntN(len(attrs))], 0, wire.CompMask(rng.Uint64()&rng.Uint64()))
	copy(m[wire.DataOffset:], data[wire.DataOffset:])
	switch rng.IntN(6) {
	case 0: // wildcards
		binary.BigEndian.PutUint64(m[48:], 0)
	case 1: // RMPP of any kind
		copy(m[24:36], data[24:36])
	case 2: // a key
		copy(m[36:44], data[36:44])
	case 3: // LIDs that are there
		for i := range 40 {
			binary.BigEndian.PutUint16(m[wire.DataOffset+2*i:], uint16(rng.IntN(20)))
		}
	}
	m.SetTID(1<<47 | rng.Uint64()>>20) // no answer to it looks awaited
	return &m
}

// TestHostileHosts: hosts that send random MADs as fast as they can do not crash the manager,
// do not make it grow, and do not keep the SA from answering others.
func TestHostileHosts(t *testing.T) {
	for _, c := range []struct {
		name string
		over func(mad.Transport) mad.Transport
	}{
		{"single", func(p mad.Transport) mad.Transport { return p }},
		{"rmpp", func(p mad.Transport) mad.Transport { return rmpp.Over(p) }},
	} {
		t.Run(c.name, func(t *testing.T) { hostileHosts(t, c.over) })
	}
}

func hostileHosts(t *testing.T, over func(mad.Transport) mad.Transport) {
	const hostile, good, burst = 3, 2, 256
	const enough = 15 // answers that each good client has while nonsense is sent
	rounds := 150
	if testing.Short() { // the race detector, which wants the paths rather than the load
		rounds = 15
	}
	r := newRigOver(t, false, over, "xgft", "2", "4,4", "1,2")
	snap := r.awaitUp()
	var attackers, clients []*asker
	for i := range hostile + good {
		a := r.asker(fmt.Sprintf("host-%d", i+2), snap.LID)
		if i < hostile {
			attackers = append(attackers, a)
		} else {
			clients = append(clients, a)
		}
	}
	storm := func(seed uint64) (heap uint64, goroutines int) {
		var all, attack, served sync.WaitGroup
		stop, fed := make(chan struct{}), make(chan struct{})
		served.Add(len(clients))
		go func() { served.Wait(); close(fed) }()
		for i, a := range attackers {
			attack.Go(func() {
				rng := rand.New(rand.NewPCG(seed, uint64(i)))
				// Whoever gets the processor: it goes on until the others have been served.
				for n := 0; ; n++ {
					if n >= rounds {
						select {
						case <-fed:
							return
						default:
						}
					}
					for range burst {
						a.send(nonsense(rng, snap.LID))
					}
					// The simulated port has a bounded queue: what it loses could
					// not be answered. So wait here until all is taken.
					var m ib.MAD
					wire.New(&m, ib.MethodGet, wire.AttrClassPortInfo, 0, 0)
					a.ask(&m)
				}
			})
		}
		for _, c := range clients {
			all.Go(func() {
				answers := 0
				defer func() {
					if answers < enough {
						served.Done()
					}
				}()
				for {
					select {
					case <-stop:
						return
					default:
					}
					var m ib.MAD
					wire.New(&m, ib.MethodGet, wire.AttrPathRecord, 0, wire.PathCompDLID|wire.PathCompSLID|wire.PathCompNumbPath)
					rec := wire.PathRecord{DLID: snap.LID, SLID: 3, NumbPath: 1}
					rec.Put(wire.Data(&m))
					switch st := c.ask(&m); st {
					case 0:
						if answers++; answers == enough {
							served.Done()
						}
					default:
						t.Errorf("a good client's query was answered with %v", st)
						return
					}
				}
			})
		}
		attack.Wait()
		close(stop)
		all.Wait()
		runtime.GC()
		var ms runtime.MemStats
		runtime.ReadMemStats(&ms)
		return ms.HeapAlloc, runtime.NumGoroutine()
	}
	heap, goroutines := storm(1)
	heap2, goroutines2 := storm(2)
	t.Logf("heap %d KiB and %d goroutines after one storm, %d KiB and %d after two", heap>>10, goroutines, heap2>>10, goroutines2)
	if heap2 > heap+4<<20 {
		t.Errorf("the heap grew from %d to %d bytes", heap, heap2)
	}
	if goroutines2 > goroutines+2 {
		t.Errorf("%d goroutines became %d", goroutines, goroutines2)
	}
	if lost := r.port.Lost(); lost > 0 {
		t.Errorf("the simulated port lost %d packets: the test is too fast for it", lost)
	}
}
