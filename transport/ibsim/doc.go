// Package ibsim attaches to a fabric that is served by ibsim's socket protocol:
// by ibsim itself, or by heddle sim.
//
// A Conn is one client at one port of one simulated node; it implements
// mad.Transport. Send and Recv may run in two goroutines, the control calls
// (SetIsSM, NodeInfo, PortInfo, PKeys) and Close in any.
//
// The protocol has no time-outs. Undeliverable requests return immediately as
// mad.Failed; a request to a silent peer returns nothing, so the caller needs
// timers (mad.Engine). The simulator replaces bits 63:48 of a transaction ID in
// requests; a response must keep all 64 bits.
//
// Recv waits in the receiving call, and one call fetches all queued packets;
// through the runtime's poller each packet would take three calls. A caller
// that passes packets to other goroutines should let those run before it waits
// again (runtime.Gosched, then TryRecv), because the waiting thread does not
// yield.
package ibsim
