// Package ibsim attaches to a fabric that is served in ibsim's socket
// protocol: by ibsim itself, or by heddle sim.
//
// A Conn is one client at one port of one simulated node; it implements
// mad.Transport. Send and Recv may run in two goroutines, the control calls
// (SetIsSM, NodeInfo, PortInfo, PKeys) and Close in any.
//
// The protocol has no time-outs. Undeliverable requests come back at once as
// mad.Failed; a request that a peer never answers brings nothing at all, so
// the caller needs timers (mad.Engine). Of a transaction ID the simulator
// replaces bits 63:48 in requests; an answer must carry all 64 bits as they
// came.
//
// Recv waits in the receiving call, and one call fetches all that has arrived:
// a packet that is waited for through the runtime's poller takes three calls.
// Whoever hands packets to other goroutines should let those run before it
// waits again (runtime.Gosched, then TryRecv): the thread that waits does not.
package ibsim
