package sim

import (
	"testing"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// FuzzMAD: no MAD from a program makes the subnet panic, and each is delivered,
// consumed or dropped.
func FuzzMAD(f *testing.F) {
	var m ib.MAD
	for _, path := range [][]byte{toH1, toS1, toH2} {
		smp.NewDR(&m, ib.MethodSet, smp.AttrPortInfo, 1, 0, path)
		f.Add(m[:], uint16(0xFFFF), uint32(0))
		smp.NewDR(&m, ib.MethodGet, smp.AttrSLtoVL, 0x30101, 0, path)
		f.Add(m[:], uint16(3), uint32(1))
	}
	m.SetHeader(ib.ClassPerf, 1, ib.MethodSet, 0x10, 0)
	f.Add(m[:], uint16(3), uint32(1))
	m.SetHeader(ib.ClassSA, 2, ib.MethodGetTable, 0x35, 0)
	f.Add(m[:], uint16(0xC000), uint32(1))
	f.Fuzz(func(t *testing.T, data []byte, lid uint16, qp uint32) {
		b := newTestbed(t, chain(), Config{OptimizedSL2VL: true, TrapMax: 3}, "H1")
		b.configure()
		b.s.devs[nS1].quirk = &Quirks{Garbage: true}
		b.e.Send(&mad.Packet{Addr: mad.Addr{LID: ib.LID(lid), QP: qp, SL: ib.SL(lid >> 4), PKeyIndex: lid}, LocalQP: qp, Data: data})
		for range 1000 {
			if !b.s.Step() {
				break
			}
		}
		if b.s.NextEvent() == mad.Never && len(b.s.idle) != len(b.s.flights) {
			t.Fatalf("%d flights, %d idle", len(b.s.flights), len(b.s.idle))
		}
	})
}

// FuzzConsole: no line makes the console panic.
func FuzzConsole(f *testing.F) {
	for i := range commands {
		f.Add(commands[i].name + ` "S1"[2] 1 2`)
		f.Add(commands[i].name + ` down H1`)
	}
	f.Add(`performanceset S1[1] PortCounters.VL15Dropped=0x10`)
	f.Fuzz(func(t *testing.T, line string) {
		s, err := New(chain(), Config{})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = s.Exec(line)
	})
}
