package sim

import (
	"time"

	"heddle/ib"
)

// Config holds the properties of a simulated subnet. The zero value is a
// loss-free fabric without latency.
type Config struct {
	// Seed of every random stream.
	Seed uint64

	// HopLatency is the time a MAD takes over one link. SMALatency is the time an
	// SMA or PMA takes for one request; requests to one node are served one after
	// the other. TrainDelay is the time from both ends of a link being ready to
	// the link being up.
	HopLatency, SMALatency, TrainDelay time.Duration
	// SMILatency is how much longer a directed-route SMP takes over each link, because the subnet
	// management interface of each node looks at it (IBA §14.2.2), where a packet by LID is
	// forwarded by the switch alone.
	SMILatency time.Duration
	// Jitter adds up to this much, uniformly, to every hop.
	Jitter time.Duration
	// SMAQueue is how many requests may wait for one node's SMA before further
	// ones are dropped (VL15Dropped); 0 = no limit. It matters only with
	// SMALatency.
	SMAQueue int

	// Drop, Duplicate and Reorder are probabilities in [0,1], drawn once for every
	// MAD that a port sends. A reordered MAD is delayed by up to ReorderMax before
	// it leaves.
	Drop, Duplicate, Reorder float64
	ReorderMax               time.Duration

	// HopLimit bounds the links a LID-routed packet may cross. It guards against
	// forwarding loops, in place of the packet lifetime. 0 = 255.
	HopLimit int

	// TrapMinInterval is the shortest gap between two repetitions of a trap;
	// the gap is 4.096 µs·2^SubnetTimeOut if that is longer. 0 = 1 s.
	TrapMinInterval time.Duration
	// TrapMax bounds the repetitions of one trap; 0 = until it is repressed. With
	// 0 the event queue is never empty while a trap is pending, so run it by time.
	TrapMax int

	// NoTraps creates agents that send no traps, which IBA leaves optional.
	NoTraps bool

	// LinearFDBCap (0 = 49152), MulticastFDBCap (0 = 1024) and EnhancedPort0 (all
	// switches, overriding the fabric) describe the switches.
	LinearFDBCap, MulticastFDBCap uint16
	EnhancedPort0                 bool
	// OptimizedSL2VL lets SLtoVL Sets use the all-ports bits.
	OptimizedSL2VL bool
	// PartitionCap is the number of P_Key entries: CA and router ports
	// (0 = 64), and switch external ports (0 = 64).
	PartitionCap, ExternalPartitionCap uint16
	// MTUCap (0 = 4096 bytes) and VLCap (0 = VL0-7, code 4) of every port.
	MTUCap ib.MTU
	VLCap  uint8
	// IgnoreLIDs starts without the LIDs that the fabric contains.
	IgnoreLIDs bool
	// HideExtendedSpeeds makes devices hide LinkSpeedExt* from a Get(PortInfo)
	// without AttributeModifier bit 31, as some do.
	HideExtendedSpeeds bool
	// ExtendedErrorCounters makes the PMA announce the 64-bit error counters of
	// PortCountersExtended. It is off by default, because tools that use ibsim's
	// preload library read the last ones as garbage.
	ExtendedErrorCounters bool
	// Carriage says whether SMPs take link time of packets, and whether GMPs are
	// packets, while a data plane runs.
	Carriage Carriage
	// VL15Buffer is how many SMPs wait at a port of a switch for their output while
	// a data plane runs; more are lost (VL15Dropped). 0 = 32.
	VL15Buffer int

	// WaitTick is the unit of PortXmitWait, of its counters by VL, and of samplers, to
	// the nearest that PortSamplesControl:Tick can say (1 to 256 times 10 bits of a
	// lane). 0 = XmitWaitTick.
	WaitTick time.Duration

	// AutoActive lets an Armed port become Active by itself when it receives a
	// data packet.
	AutoActive bool

	// DirectStates takes a Set of PortState to Initialize, Armed or Active whatever
	// the state of a port whose link is up. IBA §7.2.7 refuses to go back to
	// Initialize and to leave out Armed; models before it did both (Bermúdez et al.,
	// 2003).
	DirectStates bool

	// TraceHash keeps a running hash of all packets sent, delivered and lost; see
	// Subnet.TraceHash.
	TraceHash bool
}

func (c *Config) setDefaults() {
	if c.HopLimit == 0 {
		c.HopLimit = 255
	}
	if c.TrapMinInterval == 0 {
		c.TrapMinInterval = time.Second
	}
	if c.LinearFDBCap == 0 {
		c.LinearFDBCap = 0xC000
	}
	if c.MulticastFDBCap == 0 {
		c.MulticastFDBCap = 1024
	}
	if c.PartitionCap == 0 {
		c.PartitionCap = 64
	}
	if c.ExternalPartitionCap == 0 {
		c.ExternalPartitionCap = 64
	}
	if c.MTUCap == 0 {
		c.MTUCap = 5
	}
	if c.VL15Buffer == 0 {
		c.VL15Buffer = defaultVL15
	}
	if c.VLCap == 0 {
		c.VLCap = 4
	}
}
