package mkey

import (
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"heddle/ib"
	"heddle/sm/env/envtest"
	"heddle/sm/topo"
	"heddle/store"
	"heddle/subnet"
)

// TestTranscripts drives the keys of a subnet of a switch and three hosts, h1 to h3, at its ports
// 1 to 3. h1 is the manager's own. Commands:
//
//	config KEY             the configured M_Key (0: none)
//	shows KEY PORT…        what PortInfo of hosts, or of the switch, shows
//	hides PORT…            the agents have a key that they show only to a request with that key
//	unlinked HOST          the host's link is not part of the subnet
//	sweep [region]         a sweep read the ports; the changes of the store. A region sweep
//	                       reads the switch and h2
//	restart                the manager starts again with the store
//	guess PORT             the keys to try on the node behind a port of the switch, or "own"
//	hidden                 the keys to try on a port that hides its key
//	neighbors              the stored neighbors
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		x := &fixture{Board: envtest.New(3), stored: store.NewMemory()}
		x.Sweeper = x
		x.Config.PortGUID = x.Host(t, "h1").GUID
		x.Fabric.PortOf(0, 0).GUID, x.Fabric.PortOf(0, 0).LID = envtest.SwitchGUID, 9
		x.keys = New(&x.Env)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			x.do(t, d)
			return x.Record()
		})
	})
}

type fixture struct {
	*envtest.Board
	keys   *Keys
	stored *store.Memory
	region bool
}

// Scope implements env.Sweeper.
func (x *fixture) Scope(fn func(p *topo.Port)) {
	x.Board.Scope(func(p *topo.Port) {
		if g := x.Fabric.Nodes[p.Node].Info.NodeGUID; !x.region || g == envtest.SwitchGUID || x.NameOf(g) == "h2" {
			fn(p)
		}
	})
}

// name is that of a port GUID.
func (x *fixture) name(g ib.GUID) string {
	if g == envtest.SwitchGUID {
		return "switch"
	}
	return x.NameOf(g)
}

func (x *fixture) port(t *testing.T, name string) *topo.Port {
	if name == "switch" {
		return x.Fabric.PortOf(0, 0)
	}
	return x.Host(t, name)
}

func key(t *testing.T, s string) ib.MKey {
	k, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	return ib.MKey(k)
}

func (x *fixture) do(t *testing.T, d *datadriven.TestData) {
	arg := func(i int) string {
		if i < len(d.CmdArgs) {
			return d.CmdArgs[i].Key
		}
		return ""
	}
	switch d.Cmd {
	case "config":
		x.Config.MKey = key(t, arg(0))
	case "shows":
		for _, a := range d.CmdArgs[1:] {
			p := x.port(t, a.Key)
			p.Info.MKey, p.Info.MKeyProtectBits = key(t, arg(0)), 0
		}
	case "hides":
		for _, a := range d.CmdArgs {
			p := x.port(t, a.Key)
			p.Info.MKey, p.Info.MKeyProtectBits = 0, 1
		}
	case "unlinked":
		x.Switch(x.Host(t, arg(0))).Flags &^= topo.PortLinked
	case "sweep":
		x.region = arg(0) == "region"
		x.store(t, x.keys.Ops(!x.region))
		x.region = false
	case "restart":
		x.keys = New(&x.Env)
		st, err := x.stored.Load()
		if err != nil {
			t.Fatal(err)
		}
		x.keys.Load(st)
	case "guess":
		from := subnet.NoRef()
		if arg(0) != "own" {
			n, err := strconv.Atoi(arg(0))
			if err != nil {
				t.Fatal(err)
			}
			from = subnet.Ref{Port: uint8(n)}
		}
		x.keys.Collect()
		x.list(func(i uint32) (ib.MKey, bool) { return x.keys.Guess(from, i) })
	case "hidden":
		x.keys.Collect()
		x.list(x.keys.NextHidden)
	case "neighbors":
		for n := range uint8(3) {
			if g, ok := x.keys.Neighbors()[topo.PortID{Node: envtest.SwitchGUID, Port: n + 1}]; ok {
				x.Printf("switch port %d: %s\n", n+1, x.name(g))
			}
		}
	default:
		t.Fatalf("unknown command %s", d.Cmd)
	}
}

// store applies operations, and writes them down.
func (x *fixture) store(t *testing.T, ops []store.Op) {
	for _, o := range ops {
		switch o.Kind {
		case store.PutMKey:
			x.Printf("store M_Key %#x of %s\n", uint64(o.MKey), x.owner(o.GUID))
		case store.DeleteMKey:
			x.Printf("delete the M_Key of %s\n", x.owner(o.GUID))
		case store.PutNeighbor:
			x.Printf("store: behind switch port %d is %s\n", o.Port, x.name(o.Peer))
		}
	}
	if err := x.stored.Apply(ops); err != nil {
		t.Fatal(err)
	}
}

func (x *fixture) owner(g ib.GUID) string {
	if g == 0 {
		return "GUID 0, a key that is being introduced"
	}
	return x.name(g)
}

// list writes down the keys that try returns.
func (x *fixture) list(try func(uint32) (ib.MKey, bool)) {
	var s []string
	for i := uint32(0); ; i++ {
		k, ok := try(i)
		if !ok {
			break
		}
		s = append(s, strconv.FormatUint(uint64(k), 16))
	}
	x.Printf("%s\n", strings.Join(s, ", then "))
}
