package mad_test

import (
	"fmt"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
)

// Run a query: ask a switch of a simulated subnet, one link away, who it is. A real port replaces
// the endpoint; the engine stays the same, because its caller has the clock and the port.
func Example() {
	f, err := fabric.Generate(fabric.FatTree{Hosts: 324}, fabric.GenerateOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	subnet, err := sim.New(f, sim.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	port, err := subnet.Attach(f.Nodes[0].ID)
	if err != nil {
		fmt.Println(err)
		return
	}

	engine := mad.NewEngine(mad.Config{})
	done := func(c mad.Completion) {
		if c.Err != nil {
			fmt.Println(c.Err)
			return
		}
		var ni smp.NodeInfo
		if err := ni.Decode(smp.Data(c.MAD)); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("query", c.Token, "tries", c.Tries, ni.NodeType, "with", ni.NumPorts, "ports")
	}
	port.OnPacket = func(p *mad.Packet) {
		if c, kind := engine.Receive(subnet.Now(), p); kind == mad.KindCompletion {
			done(c)
		}
	}

	r := mad.Request{Token: 7, Addr: mad.Addr{LID: ib.LIDPermissive}}
	smp.NewDR(&r.MAD, ib.MethodGet, smp.AttrNodeInfo, 0, 0, []byte{1})
	if err := engine.Submit(&r); err != nil {
		fmt.Println(err)
		return
	}
	for !engine.Idle() {
		engine.Poll(subnet.Now(), port.Send)
		subnet.RunUntil(min(engine.NextTimer(), subnet.NextEvent()))
		engine.Expire(subnet.Now(), done)
	}
	// Output:
	// query 7 tries 1 Switch with 36 ports
}
