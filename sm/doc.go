// Package sm is the subnet manager: it discovers a subnet, assigns LIDs, configures links, computes,
// verifies and distributes forwarding tables, activates the links, and then watches the subnet. It
// settles with other managers which of them is the master.
//
// The work is done by the packages below sm, its parts. Each owns its state, its timers and its
// requests. Core is the conductor: it takes events, passes answers to the part that asked, decides
// which phase of a sweep follows (phase.go), and publishes snapshots. The parts reach each other
// through small interfaces (parts.go).
//
// Core is a state machine. Its shell calls Step with one event at a time and
// then does what Output lists, in this order:
//
//  1. Persist: apply to the store, then Step(Persisted{…}). The core sends
//     nothing that depends on it before that event says it is durable.
//  2. IsSM: set or clear CapabilityMask.IsSM of the port.
//  3. Sends: hand to the port.
//  4. Jobs: run each on a bounded pool, then Step(JobDone{…}).
//  5. Publish: store the snapshot in an atomic pointer.
//  6. Placements, Traps: pass to vm and sa.
//  7. Notices, Plan: log, show, remember as events.
//  8. Timer: one deadline; Step(Timer{}) when it has come. It replaces the
//     deadline of the Output before. mad.Never: none.
//
// A Core is used by one goroutine at a time. It reads no clock, starts no
// goroutine and draws no random numbers: the same events at the same times give the same outputs.
//
//	core := sm.New(cfg)
//	core.Step(now, sm.Start{Stored: state}, &out)
//	for {
//		do(&out)
//		out.Reset()
//		ev := wait(out.Timer)
//		core.Step(clock.Now(), ev, &out)
//	}
//
// States follow IBA Vol. 1, §14.4; where public implementations differ from it
// the comment at the place says what was chosen.
package sm
