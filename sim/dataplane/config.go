package dataplane

import (
	"fmt"

	"heddle/ib"
)

// Config is the model of the parts that Topology and Tables do not describe.
// Defaults returns a reasonable one.
type Config struct {
	Seed uint64
	// Lanes is how many data lanes there are records for: at least the operational
	// lanes of every port, at most 15.
	Lanes int

	// SwitchDelay is the time from the head of a packet at an input to its first
	// possible start at an output.
	SwitchDelay Time
	// CreditDelay is the time to return a credit, in addition to the cable delay and
	// the 8-byte flow control packet.
	CreditDelay Time

	// Buffer and HostBuffer are the input buffers of a switch port and of a host
	// port in blocks of 64 bytes, split equally among the port's operational lanes.
	Buffer, HostBuffer int
	// LaneBuffer, if not 0, is the buffer of each lane of a switch port instead.
	LaneBuffer int

	// Input is how an input buffer is queued.
	Input Queueing
	// Reads is how many packets can be read from an input port at once; 0: any
	// number.
	Reads int
	// Choice is how an output chooses among the inputs that have a packet for the
	// same lane.
	Choice Choice

	// MarkHysteresis is by how many blocks of 64 bytes what waits for a lane must fall below the
	// threshold of congestion control until the lane marks no more. Where a lane buffers one to
	// three packets, 0 marks the packets of slow senders: each is followed by one of the fast
	// sender, which is followed by none (Gran et al. 2011: above one MTU).
	MarkHysteresis int

	// SourceQueue is the limit of the queues of Stream.Queue LaneQueue, HostQueue
	// and DestQueue in packets.
	SourceQueue int
	// DiscardInactive makes a host whose port is not Active discard what its streams
	// make (IBA §7.2.7: what is presented for transmission then is discarded), counted
	// as Inactive. Otherwise, and of streams that make packets when the port can take
	// one (Saturated, Closed, Posted), the host keeps them until the port is Active.
	// What waits already when the port ceases to be Active is always kept.
	DiscardInactive bool
	// SL gives the service level of a packet from one end port to another, as a
	// PathRecord would; nil: Stream.SL.
	SL func(src, dst int) ib.SL

	// DetectEvery is how often Run looks for deadlocks, at its multiples and only if
	// there may be one; 0: 20 times the time of a 2 KiB packet on the slowest link.
	// Negative: never.
	DetectEvery Time
	// Workers is how many processors Run may use; 0 is 1. The results do not depend
	// on it. With several, Tables and SL are asked by several goroutines at once, and
	// only while Run runs. Closed loops with an AckDelay below 1 ns, and hooks while
	// there are Posted streams, leave Run with one. More than MaxWorkers are MaxWorkers.
	Workers int
	// Details counts packets by service level and lane (Engine.Detail), at 640 bytes
	// for each port.
	Details bool
	// Checks turns on the assertions that cost time: Run panics on a violation.
	Checks bool
}

// Queueing is how the packets of an input buffer wait.
type Queueing uint8

const (
	FIFO Queueing = iota // one queue for each (input, lane), which blocks behind its head
	VOQ                  // one for each (input, lane, output)
)

// String prints "FIFO".
func (q Queueing) String() string { return [...]string{"FIFO", "VoQ"}[q] }

// Choice is the arbitration among inputs.
type Choice uint8

const (
	RoundRobin  Choice = iota // by packet, next port number first
	OldestFirst               // the packet that became head of its queue first
)

// String prints "round robin".
func (c Choice) String() string { return [...]string{"round robin", "oldest first"}[c] }

// Defaults is a switch like those of the IS4 generation: 100 ns, 64 KB for each
// port. (The InfiniBand flit model and vendors' figures; the parts themselves
// are not documented.)
func Defaults() Config {
	return Config{
		Lanes: 1, SwitchDelay: 100 * Nanosecond, Buffer: 1024, HostBuffer: 1024,
		Input: FIFO, Reads: 1, SourceQueue: 64,
	}
}

func (c *Config) check() error {
	switch {
	case c.Lanes < 1 || c.Lanes > 15:
		return fmt.Errorf("dataplane: %d lanes; 1 to 15 data lanes are possible", c.Lanes)
	case c.SwitchDelay < 0 || c.CreditDelay < 0:
		return fmt.Errorf("dataplane: negative delay")
	case c.Buffer < 1 || c.HostBuffer < 1 || c.LaneBuffer < 0:
		return fmt.Errorf("dataplane: buffers of %d, %d and %d blocks; at least 1 is required", c.Buffer, c.HostBuffer, c.LaneBuffer)
	case c.Workers < 0:
		return fmt.Errorf("dataplane: %d workers", c.Workers)
	case c.Reads < 0:
		return fmt.Errorf("dataplane: Reads is %d; it must not be negative", c.Reads)
	case c.MarkHysteresis < 0:
		return fmt.Errorf("dataplane: a hysteresis of %d blocks", c.MarkHysteresis)
	case c.SourceQueue < 1:
		return fmt.Errorf("dataplane: source queues of %d packets; at least 1 is required", c.SourceQueue)
	}
	return nil
}
