// Discover reads NodeInfo from the agents of a simulated subnet, over directed routes,
// and prints each node. On a real port transport/umad replaces the simulated endpoint.
//
//	go run ./examples/discover
package main

import (
	"fmt"
	"io"
	"os"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "discover:", err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	f, err := fabric.Generate(fabric.Torus{Dims: []int{3, 3}, Hosts: 1}, fabric.GenerateOptions{})
	if err != nil {
		return err
	}
	subnet, err := sim.New(f, sim.Config{})
	if err != nil {
		return err
	}
	port, err := subnet.Attach(f.Nodes[0].ID)
	if err != nil {
		return err
	}

	engine := mad.NewEngine(mad.Config{})
	var paths [][]byte // by token
	ask := func(path []byte) {
		r := mad.Request{Token: uint64(len(paths)), Addr: mad.Addr{LID: ib.LIDPermissive}}
		smp.NewDR(&r.MAD, ib.MethodGet, smp.AttrNodeInfo, 0, 0, path)
		if err := engine.Submit(&r); err == nil {
			paths = append(paths, path)
		}
	}
	seen := map[ib.GUID]bool{}
	done := func(c mad.Completion) {
		var ni smp.NodeInfo
		if c.Err != nil || ni.Decode(smp.Data(c.MAD)) != nil || seen[ni.NodeGUID] {
			return // no link, or a second path to a node
		}
		seen[ni.NodeGUID] = true
		path := paths[c.Token]
		fmt.Fprintf(out, "%v %v, %d ports, %d hops away\n", ni.NodeGUID, ni.NodeType, ni.NumPorts, len(path))
		if ni.NodeType == ib.NodeSwitch || len(path) == 0 {
			for p := range ni.NumPorts {
				ask(append(slices.Clone(path), p+1))
			}
		}
	}
	port.OnPacket = func(p *mad.Packet) {
		if c, kind := engine.Receive(subnet.Now(), p); kind == mad.KindCompletion {
			done(c)
		}
	}

	ask(nil)
	for !engine.Idle() {
		engine.Poll(subnet.Now(), port.Send)
		subnet.RunUntil(min(engine.NextTimer(), subnet.NextEvent()))
		engine.Expire(subnet.Now(), done)
	}
	fmt.Fprintf(out, "%d nodes\n", len(seen))
	return nil
}
