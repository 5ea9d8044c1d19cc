package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// TestTranscripts runs the scenarios of testdata. Commands:
//
//	chain [configured] [latency=D] [train=D]  a new chain with an endpoint on H1 that takes everything
//	exec                                      console commands, one a line
//	run D                                     let virtual time pass
//	walk                                      Get(NodeInfo) to all four nodes, packets shown
//
// What the endpoint receives, what is lost, what changes state is printed with
// its time as it happens.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var b *testbed
		var out strings.Builder
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out.Reset()
			switch d.Cmd {
			case "chain":
				var c Config
				var lat, train string
				d.MaybeScanArgs(t, "latency", &lat)
				d.MaybeScanArgs(t, "train", &train)
				c.HopLatency, _ = time.ParseDuration(lat)
				c.TrainDelay, _ = time.ParseDuration(train)
				b = newTestbed(t, chain(), Config{}, "H1")
				if d.HasArg("configured") {
					b.configure()
					for _, p := range [][]byte{toS1, toS2} {
						b.switchInfo(p, func(si *smp.SwitchInfo) { si.PortStateChange = true })
					}
				}
				b.s.cfg.HopLatency, b.s.cfg.TrainDelay = c.HopLatency, c.TrainDelay
				b.narrate(&out)
			case "exec":
				for l := range strings.SplitSeq(d.Input, "\n") {
					text, err := b.s.Exec(l)
					out.WriteString(text)
					if err != nil {
						fmt.Fprintln(&out, err)
					}
				}
			case "run":
				dur, err := time.ParseDuration(d.CmdArgs[0].Key)
				if err != nil {
					t.Fatal(err)
				}
				b.s.RunUntil(b.s.Now().Add(dur))
			case "walk":
				for _, p := range [][]byte{toH1, toS1, toS2, toH2} {
					var m ib.MAD
					smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, p)
					b.e.Send(&mad.Packet{Addr: dr, Data: m[:]})
				}
			default:
				t.Fatalf("unknown command %s", d.Cmd)
			}
			if out.Len() == 0 {
				return "nothing\n"
			}
			return out.String()
		})
	})
}

// narrate prints what happens to w.
func (b *testbed) narrate(w *strings.Builder) {
	s := b.s
	say := func(format string, a ...any) {
		fmt.Fprintf(w, "%v %s\n", time.Duration(s.Now()), fmt.Sprintf(format, a...))
	}
	s.OnChange = func(c Change) {
		switch id := s.f.Nodes[c.Node].ID; c.Kind {
		case ChangeState:
			say("%s[%d] %v to %v", id, c.Port, c.Old, c.New)
		case ChangeReset:
			say("%s starts afresh", id)
		}
	}
	s.OnDrop = func(why DropReason, node int, port uint8, p *mad.Packet) {
		m := ib.MAD(p.Data)
		say("lost at %s[%d]: %v %s (%v)", s.f.Nodes[node].ID, port, m.Method(), ib.AttrName(m.Class(), m.AttrID()), why)
	}
	b.e.Accepts = func(*mad.Packet) bool { return true }
	b.e.OnPacket = func(p *mad.Packet) {
		m := ib.MAD(p.Data)
		switch {
		case m.Method() == ib.MethodTrap:
			var n smp.Notice
			_ = n.Decode(smp.Data(&m))
			say("trap %d from LID %v, TID %d", n.TrapNumber, n.IssuerLID, m.TID())
		case m.AttrID() == smp.AttrNodeInfo:
			var n smp.NodeInfo
			_ = n.Decode(smp.Data(&m))
			say("%v NodeInfo: %v %v in by port %d", m.Method(), n.NodeType, n.NodeGUID, n.LocalPortNum)
		default:
			say("%v %s", m.Method(), ib.AttrName(m.Class(), m.AttrID()))
		}
	}
}
