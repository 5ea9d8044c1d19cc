package agenda

import (
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"heddle/ib"
	"heddle/mad"
	"heddle/sm/env/envtest"
	"heddle/sm/notice"
	"heddle/subnet"
)

// TestTranscripts plays the demands for sweeps of a switch with three hosts. Commands:
//
//	phase NAME        the manager is idle, or in a light sweep, a move of LIDs, or a sweep (discover)
//	ask, full WHY     a sweep, or a full one, is demanded
//	urgent            a fault is what the next sweep is about
//	node NAME         a node is to be looked at: a host, or "switch"
//	lid N [whole]     a trap came from a LID
//	audit, groups     tables are to be read back, groups to be routed
//	many N            N nodes are to be looked at
//	pass D            virtual time passes
//	begin             the sweep begins, if one is wanted; discovery takes the suspects
//	end               the sweep ends
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &stage{Board: envtest.New(3)}
		s.Phase = notice.PhaseIdle
		s.Snapshot = &subnet.Snapshot{Self: subnet.NoRef()}
		f, endPorts := s.Fabric, int32(0)
		for n := range f.Nodes {
			nd := subnet.Node{Info: f.Nodes[n].Info, First: int32(len(s.Snapshot.Ports)), OK: true}
			s.Snapshot.Nodes = append(s.Snapshot.Nodes, nd)
			for i := range f.NodePorts(int32(n)) {
				p := f.PortOf(int32(n), uint8(i))
				lid := p.LID
				if n == 0 && i == 0 {
					lid = 9
				}
				q := subnet.Port{GUID: p.GUID, Node: int32(n), Num: p.Num, LID: lid, Peer: subnet.NoRef(), EndPort: -1}
				if lid != 0 {
					q.EndPort = endPorts
					endPorts++
				}
				s.Snapshot.Ports = append(s.Snapshot.Ports, &q)
			}
			f.Nodes[n].Info.LocalPortNum = 1
		}
		s.Snapshot.Finish()
		s.a = New(&s.Env, s)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.do(t, d)
			return s.Record()
		})
	})
}

type stage struct {
	*envtest.Board
	a *Agenda
}

// Sign implements Repairs.
func (s *stage) Sign() {}

func (s *stage) do(t *testing.T, d *datadriven.TestData) {
	arg := func(i int) string { return d.CmdArgs[i].Key }
	number := func(i int) int {
		n, err := strconv.Atoi(arg(i))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	switch d.Cmd {
	case "phase":
		s.Phase = map[string]notice.Phase{
			"idle": notice.PhaseIdle, "light": notice.PhaseLight, "move": notice.PhaseMove, "discover": notice.PhaseDiscover,
		}[arg(0)]
	case "ask":
		s.a.Ask(d.Input)
	case "full":
		s.a.AskFull(d.Input)
	case "urgent":
		s.a.Urgent()
	case "node":
		if arg(0) == "switch" {
			s.a.SuspectNode(0)
		} else {
			s.a.SuspectNode(s.Host(t, arg(0)).Node)
		}
	case "lid":
		if g := s.a.SuspectLID(ib.LID(number(0)), len(d.CmdArgs) > 1); g != 0 {
			s.Printf("it is the switch\n")
		}
	case "audit":
		s.a.WantAudit()
	case "groups":
		s.a.RouteGroups()
	case "ask-groups":
		s.a.AskGroups(d.Input)
	case "many":
		for i := range number(0) {
			s.a.Suspect(ib.GUID(1000+i), 1)
		}
		s.Printf("%d suspects, everything: %v\n", len(s.a.Suspects()), s.a.ReadsAll())
		return
	case "pass":
		dur, err := time.ParseDuration(arg(0))
		if err != nil {
			t.Fatal(err)
		}
		s.Pass(dur)
	case "begin":
		if !s.a.Wanted() {
			s.Printf("no sweep is wanted\n")
			return
		}
		s.Printf("a sweep begins: %s\n", s.a.Why())
		all, groups, audit := s.a.ReadsAll(), s.a.Begin(), s.a.Audit()
		s.Printf("it reads")
		if all {
			s.Printf(" everything")
		}
		for _, x := range s.a.Suspects() {
			if !all {
				s.Printf(" %s", s.name(x))
			}
		}
		s.a.ClearSuspects()
		s.Printf("\n")
		if groups {
			s.Printf("it routes groups\n")
		}
		if audit {
			s.Printf("it reads all tables back\n")
		}
		s.Phase = notice.PhaseDiscover
		return
	case "end":
		s.Phase = notice.PhaseIdle
		if why, ok := s.a.Demanded(); ok {
			s.Printf("demanded meanwhile: %s\n", why)
			if s.a.GroupsAlone() {
				s.Printf("that is for multicast groups alone\n")
			}
			s.a.Want(why)
		}
		s.a.Ended()
		return
	default:
		t.Fatalf("no such command: %s", d.Cmd)
	}
	switch at := s.a.InterruptAt(); {
	case !s.a.Wanted():
	case !s.a.Interrupts():
		s.Printf("a sweep is wanted\n")
	case at == mad.Never:
		s.Printf("a sweep waits for the work under way\n")
	case at > s.Now:
		s.Printf("a sweep waits for %v\n", at.Sub(s.Now))
	default:
		s.Printf("a sweep is wanted; the work under way is cut short\n")
	}
}

func (s *stage) name(x Suspect) string {
	name := s.NameOf(x.GUID)
	if x.GUID == envtest.SwitchGUID {
		name = "switch"
	}
	if x.Port == WholeSwitch {
		return name
	}
	return name + ":" + strconv.Itoa(int(x.Port))
}
