package guid

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/env/envtest"
	"heddle/sm/topo"
	"heddle/subnet"
)

// TestTranscripts plays four hosts, h1 to h4, whose GUID tables have 16 entries. Commands:
//
//	set, place          the aliases that SA clients want, or placements, one a line: HOST INDEX GUID
//	                    [admin]
//	hold HOST GUID…     what the table of a host holds, from index 1 on, without the manager
//	agent HOST HOW      how the host's agent behaves: answer, mute (no answer), lose (a Set is
//	                    applied and its answer lost), refuse, stubborn (a Set changes nothing)
//	upkeep              what the manager does until it has nothing more to do now
//	pass D              virtual time passes
//	leave, return HOST  the host leaves the subnet, or is discovered again
//	master              another mastership begins
//	show                what is known of the tables, and what snapshots show if that differs
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		b := newStage()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			b.do(t, d)
			return b.Record()
		})
	})
}

// stage is the tables, the other parts and the agents.
type stage struct {
	*envtest.Board
	g     *Tables
	table map[*topo.Port][]ib.GUID
	how   map[*topo.Port]string
	named ib.GUID // that the partitions name
	asked int     // calls of Names
}

func newStage() *stage {
	b := &stage{Board: envtest.New(4), table: map[*topo.Port][]ib.GUID{}, how: map[*topo.Port]string{}}
	for _, pi := range b.Fabric.EndPort {
		p := &b.Fabric.Ports[pi]
		p.Info.GUIDCap = 16
		b.table[p] = make([]ib.GUID, 16)
		b.table[p][0] = p.GUID
	}
	b.g = New(&b.Env, b, b, b)
	return b
}

func (b *stage) Touch(port ib.GUID)                   { b.Printf("P_Keys of %s may change\n", b.NameOf(port)) }
func (b *stage) Names(g ib.GUID) bool                 { b.asked++; return g == b.named }
func (b *stage) MemberMoved(ib.GUID)                  {}
func (b *stage) Elsewhere(ib.GUID, subnet.Place) bool { return false }
func (b *stage) FloatBase(ib.GUID) ib.LID             { return 0 }
func (b *stage) AliasesHeld(port ib.GUID, old []ib.GUID) {
	b.Printf("%s holds%s, held%s\n", b.NameOf(port), list(b.g.Have(port)), list(old))
}

func list(l []ib.GUID) string {
	if len(l) == 0 {
		return " no alias"
	}
	var s strings.Builder
	for i, g := range l {
		if g != 0 {
			s.WriteString(" " + strconv.Itoa(i) + ":" + short(g))
		}
	}
	return s.String()
}

func short(g ib.GUID) string { return "0x" + strconv.FormatUint(uint64(g), 16) }

func (b *stage) guid(t *testing.T, s string) ib.GUID {
	g, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	return ib.GUID(g)
}

func (b *stage) do(t *testing.T, d *datadriven.TestData) {
	arg := func(i int) string { return d.CmdArgs[i].Key }
	switch d.Cmd {
	case "set":
		b.g.Set(b.aliases(t, d.Input))
	case "place":
		b.g.SetPlaced(b.aliases(t, d.Input))
	case "hold":
		p := b.Host(t, arg(0))
		clear(b.table[p][1:])
		for i := range d.CmdArgs[1:] {
			b.table[p][i+1] = b.guid(t, arg(i+1))
		}
	case "agent":
		b.how[b.Host(t, arg(0))] = arg(1)
	case "upkeep":
		for b.g.Due() {
			b.g.Upkeep(1)
			b.Run(b.g, b.answer)
			b.g.UpkeepDone()
		}
		if b.g.Next() != mad.Never {
			b.Printf("more in %v\n", b.g.Next().Sub(b.Now))
		}
	case "pass":
		dur, err := time.ParseDuration(arg(0))
		if err != nil {
			t.Fatal(err)
		}
		b.Pass(dur)
	case "leave":
		b.Leave(b.Host(t, arg(0)))
		b.g.Discovered(true)
	case "return":
		b.Return(b.Host(t, arg(0)))
		b.g.Discovered(true)
	case "master":
		b.g.Reset()
		b.g.Discovered(true)
	case "show":
		for _, name := range []string{"h1", "h2", "h3", "h4"} {
			p := b.Host(t, name)
			b.Printf("%s:%s", name, list(b.g.Have(p.GUID)))
			if s := list(b.g.Shown(p.GUID)); s != list(b.g.Have(p.GUID)) {
				b.Printf("; shown:%s", s)
			}
			b.Printf("\n")
		}
	default:
		d.Fatalf(t, "no such command")
	}
}

func (b *stage) aliases(t *testing.T, input string) (out []subnet.Alias) {
	for l := range strings.Lines(input) {
		w := strings.Fields(l)
		i, err := strconv.Atoi(w[1])
		if err != nil {
			t.Fatal(err)
		}
		a := subnet.Alias{Port: b.Host(t, w[0]).GUID, Index: uint8(i), GUID: b.guid(t, w[2]), Carries: len(w) > 3}
		out = append(out, a)
	}
	return out
}

// answer is the agent of a port.
func (b *stage) answer(s *envtest.SMP) (ib.Status, error) {
	tab := b.table[s.Port][s.Mod*smp.GUIDBlockLen:]
	var i smp.GUIDInfo
	if s.Set {
		_ = i.Decode(s.Data)
		b.Printf("Set(GUIDInfo) %s block %d:%s\n", b.Name(s.Port), s.Mod, list(i[:]))
	} else {
		b.Printf("Get(GUIDInfo) %s block %d\n", b.Name(s.Port), s.Mod)
	}
	switch how := b.how[s.Port]; how {
	case "mute":
		return 0, mad.ErrTimeout
	case "refuse":
		return ib.StatusInvalidField, nil
	default:
		if s.Set && how != "stubborn" {
			copy(tab, i[:])
		}
		if s.Set && how == "lose" {
			return 0, mad.ErrTimeout
		}
	}
	copy(i[:], tab)
	i.Put(s.Data)
	return 0, nil
}

// TestUnowned: aliases that partitions name and nobody gave are told of once they are found, or once
// partitions name them; only tables that changed are looked at, and those that were told of.
func TestUnowned(t *testing.T) {
	b := newStage()
	b.g.Set(nil)
	h1, h2 := b.Host(t, "h1"), b.Host(t, "h2")
	tell := func(renamed bool, told bool, asked int) {
		t.Helper()
		b.Record()
		b.asked = 0
		b.g.TellUnowned(renamed)
		if got := strings.Contains(b.Record(), "no administrator gave it"); got != told || b.asked != asked {
			t.Errorf("told: %v after %d questions, want %v after %d", got, b.asked, told, asked)
		}
	}
	b.g.holds(b.g.table(h1.GUID), []ib.GUID{0, 0x11})
	b.g.holds(b.g.table(h2.GUID), []ib.GUID{0, 0x22})
	tell(true, false, 2)
	tell(false, false, 0)
	b.named = 0x22
	tell(true, true, 2)
	tell(false, false, 1) // it is still there: the notice is not forgotten
	b.g.holds(b.g.table(h2.GUID), nil)
	tell(false, false, 0)
	b.g.holds(b.g.table(h1.GUID), []ib.GUID{0, 0x22})
	tell(false, true, 1)
}
