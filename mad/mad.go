// Package mad carries management datagrams: the packet that goes to and comes
// from a port, the Transport interface of ports, and (Engine) the pure
// transaction engine that matches responses, retries, backs off and bounds what
// is in flight. The RMPP engine is here too.
//
// Nothing in this package reads a clock or starts a goroutine: callers pass the
// time in, so real-time daemons and the virtual-time simulator use the same
// code.
package mad

import (
	"time"

	"heddle/ib"
)

// Time is a moment in nanoseconds since an epoch that the caller chooses:
// process start in real time, 0 in a simulation.
type Time int64

// Add returns t + d.
func (t Time) Add(d time.Duration) Time { return t + Time(d) }

// Sub returns t - u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Never is later than every moment.
const Never Time = 1<<63 - 1

// GRH is the global route header of a packet that has one.
type GRH struct {
	GID          ib.GID // the peer's GID
	GIDIndex     uint8  // index into the local GID table
	HopLimit     uint8
	TrafficClass uint8
	FlowLabel    uint32 // 20 bits
}

// Addr is the far end of a packet: its destination when sent, its source when
// received. Its fields are in an order that leaves no gaps, as every packet is copied.
type Addr struct {
	LID       ib.LID // LIDPermissive for a directed route
	PKeyIndex uint16
	QP        uint32  // remote QP: 0 or 1, or that of a redirected class
	QKey      ib.QKey // of a redirected class when sent; 0: the well-known one of QP 1
	SL        ib.SL
	PathBits  uint8
	HasGRH    bool
	// Relayed: the packet came to the port of another manager, which passed it on. An answer with this
	// address goes back there. Only the ports of package replica/live know it.
	Relayed bool
	GRH     GRH // meaningful only with HasGRH
}

// SendStatus says what a packet from a transport is.
type SendStatus uint8

const (
	// Received is a MAD from the wire.
	Received SendStatus = iota
	// Failed is one of our own requests that the transport reports as unanswered
	// or undeliverable (status 110 of umad and of ibsim). Only the header of Data
	// is valid.
	Failed
)

// Packet is one MAD, or one whole RMPP message if the transport segments and
// reassembles (Data may then be longer or shorter than 256 bytes).
type Packet struct {
	Addr    Addr
	Status  SendStatus
	LocalQP uint32 // our QP: 0 for SMPs, 1 for GMPs
	// Timeout is how long a transport that keeps time itself (umad) may wait
	// for the response of this try; 0 = no response expected.
	Timeout time.Duration
	// SingleMAD marks a received request whose sender cannot reassemble RMPP
	// messages, so that the response must be one MAD. Only simulated ports set it.
	SingleMAD bool
	Data      []byte
}

// Transport is a port of a fabric through which MADs are sent and received:
// transport/umad, transport/ibsim, or a simulated port in the same process.
// Send may be called from any number of goroutines, Recv from one at a time
// unless the implementation says otherwise, both at the same time.
type Transport interface {
	// Send hands p to the port, best effort, and does not keep p or p.Data.
	Send(p *Packet) error
	// Recv blocks until a packet arrives and fills p, reusing p.Data's
	// capacity. It returns an error once the port is closed or lost.
	Recv(p *Packet) error
	// SetIsSM sets or clears CapabilityMask.IsSM of the port.
	SetIsSM(on bool) error
	// PortGUID is the GUID of the port.
	PortGUID() ib.GUID
	// SegmentsRMPP reports whether Data of SA messages may be a whole
	// multi-segment message (kernel RMPP).
	SegmentsRMPP() bool
	// MaxInFlight is how many unanswered requests the port accepts without losing
	// them; 0: unknown.
	MaxInFlight() int
	Close() error
}

// Burster is implemented by a Transport that can send or receive several
// packets in one call.
type Burster interface {
	// Bursts is false if the transport cannot, because the transport beneath it
	// cannot.
	Bursts() bool
	// BurstsRMPP reports whether TrySend accepts RMPP messages too, because the
	// kernel segments them.
	BurstsRMPP() bool
	// TryRecv is Recv without waiting; false: the last poll of the port found
	// nothing. A port whose last poll found little is polled again only after
	// false was returned once.
	TryRecv(p *Packet) (bool, error)
	// TrySend sends packets of one MAD each (see BurstsRMPP), in order and without
	// waiting for space. It returns how many it accepted, and an error if the next one
	// cannot be sent at all.
	TrySend(ps []Packet) (int, error)
}

// Batcher is implemented by a Transport that sends several packets for less than one by one.
type Batcher interface {
	// SendAll is Send for each packet, in order. It returns how many it sent, and an error if the
	// next one cannot be sent.
	SendAll(ps []Packet) (int, error)
}

// Returner is implemented by a Transport whose requests another manager can answer.
type Returner interface {
	// Return gives a request back, as it was received, that was not answered because the Transport was
	// cut. It does not keep p. false: nobody else will answer it.
	Return(p *Packet) bool
}

// LateCopy is how long a duplicate of a datagram may stay in flight in a subnet after the
// response. A value written twice within this time is read back, because the duplicate of the
// first write may arrive last.
const LateCopy = 5 * time.Second
