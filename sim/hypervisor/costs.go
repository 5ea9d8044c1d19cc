// Package hypervisor migrates virtual machines live between simulated hypervisors, in
// virtual time: their memory goes ahead while they run, their virtual function is
// detached, they stop, and go on elsewhere with another function. What happens to
// their connections depends on the Way.
//
//	m, _ := hypervisor.New(config, site)
//	m.Start()
//	… events run until m.Done()
//
// A Migration decides when what happens. The Site does it: the stream between the
// hypervisors, the virtual functions, and the manager's operations. So a test can have
// a site without a manager, and `lab` has one with the real manager.
package hypervisor

import (
	"fmt"
	"time"

	"heddle/sim/hypervisor/precopy"
)

// Way is how connections get through a migration.
type Way uint8

// The ways.
const (
	// ThreeStages is for functions that share their port's LID: suspend, migrate,
	// resume (package suspend). The peers take part.
	ThreeStages Way = iota + 1
	// FloatingLID: the port has the machine's LID while the machine is there. Queue
	// pairs go along with their numbers, and peers do nothing.
	FloatingLID
	// VSwitch: the function has a LID, which the manager writes at the destination.
	VSwitch
	// VPort: the same with virtual ports of the IBA; the GUID goes with the machine.
	VPort
	// Firmware: the function has a LID, and is not detached: the adapter saves its state
	// when the machine stops, and the other adapter loads it.
	Firmware
)

var wayNames = [...]string{
	ThreeStages: "shared port, three stages", FloatingLID: "floating LID", VSwitch: "vSwitch", VPort: "VPort with a LID",
	Firmware: "firmware saves the function",
}

// String prints "floating LID".
func (w Way) String() string {
	if w > 0 && int(w) < len(wayNames) {
		return wayNames[w]
	}
	return fmt.Sprintf("way %d", uint8(w))
}

// Ways lists them.
func Ways() []Way { return []Way{ThreeStages, FloatingLID, VSwitch, VPort, Firmware} }

// Costs are what no simulation can know: the times of hot plug, kernels and firmware.
type Costs struct {
	Detach      time.Duration // a function leaves the machine's kernel
	Attach      time.Duration // the kernel of the machine takes a function
	Reconfigure time.Duration // ThreeStages: queue pairs, memory and tables are made anew
	Save, Load  time.Duration // Firmware: the state of a function
	State       int64         // Firmware: bytes of it
	OutOfBand   time.Duration // a message between processes over another network
	Tick        time.Duration // how often a hypervisor looks
	Rate        float64       // bytes/s that the copy takes at most; 0: what the fabric gives
}

// Published are those of Paper V of W. L. Guay's thesis (Figure 13): all takes 4.7 s;
// with late detach the function is away for 1.9 s, of which some 0.2 s are
// stop-and-copy, simulated, and reconfiguration takes 0.7 s. How the 1.7 s are shared
// between detach and attach, and the rate of the copy, are not published: the rate is
// chosen so that pre-copy takes what late detach saved. Save, Load and State are
// assumptions: no source has them.
func Published() Costs {
	return Costs{
		Detach: 500 * time.Millisecond, Attach: 1220 * time.Millisecond, Reconfigure: 700 * time.Millisecond,
		Save: 50 * time.Millisecond, Load: 50 * time.Millisecond, State: 4 << 20,
		OutOfBand: 200 * time.Microsecond, Tick: time.Millisecond, Rate: 1.7e9 / 8,
	}
}

// Cost is a parameter as reports print it.
type Cost struct{ Name, Value, Why string }

// List names all parameters, for figures that depend on them.
func (c *Costs) List() []Cost {
	rate := "what the fabric gives"
	if c.Rate > 0 {
		rate = fmt.Sprintf("%.3g Gb/s", c.Rate*8/1e9)
	}
	return []Cost{
		{"a function is detached", c.Detach.String(), "input; with the attach and stop-and-copy 1.9 s (Figure 13)"},
		{"a function is attached", c.Attach.String(), "input; as above"},
		{"queue pairs and maps are made anew", c.Reconfigure.String(), "input (Figure 13: reconfiguration)"},
		{"firmware saves, loads a function", fmt.Sprintf("%v, %v, %d KiB", c.Save, c.Load, c.State>>10), "assumption: not published"},
		{"a message between processes", c.OutOfBand.String(), "assumption: sockets over Ethernet"},
		{"a hypervisor looks every", c.Tick.String(), "-"},
		{"rate of the copy", rate, "input; so that all takes the 4.7 s of Figure 13 without late detach"},
	}
}

// Scale divides all times by n, for runs of compressed time. Rates stay: the state of a
// function shrinks by n here, and what a copy moves by ScaleCopy.
func (c Costs) Scale(n int) Costs {
	d := time.Duration(n)
	c.Detach, c.Attach, c.Reconfigure, c.Save, c.Load = c.Detach/d, c.Attach/d, c.Reconfigure/d, c.Save/d, c.Load/d
	c.OutOfBand, c.Tick, c.State = c.OutOfBand/d, c.Tick/d, c.State/int64(n)
	return c
}

// ScaleCopy divides the memory, and the time in which its rest is copied, by n.
func ScaleCopy(c precopy.Config, n int) precopy.Config {
	pages := max(c.Memory/int64(c.Page)/int64(n), 1)
	c.Memory = pages * int64(c.Page)
	c.Chunk = max(c.Chunk/n/c.Page*c.Page, c.Page)
	c.Pause /= time.Duration(n)
	return c
}

// Outlasts is the calculator for connections whose peers do nothing (IBA §9.9.2.1): how
// long a path may be away before a requester that waits for each message ends its
// connection. The last retry leaves that long after the packet that was lost; the
// connection ends a transport timer later. A requester that goes on sending has the time
// until its window is full besides, because each packet restarts the timer.
func Outlasts(timeout, retries uint8) time.Duration {
	return time.Duration(retries) * 4096 * time.Nanosecond << (timeout & 31)
}
