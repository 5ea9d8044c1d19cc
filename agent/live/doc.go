// Package live runs path caches (agent.Core) in real time, and serves them to programs: over
// ibacm's socket protocol, to the kernel over the RDMA netlink, and over a control socket.
//
//	s, err := live.New(live.Config{Ports: ports, Core: agent.Defaults(), …})
//	if err != nil { … }
//	err = s.Run(ctx)
//
// The caller opens the ports and the listeners. Each port has one goroutine, which owns its
// core; each connection of a program has one, which waits for the answer of the core at most
// Config.Wait. The methods of Server may be called from any goroutine.
package live
