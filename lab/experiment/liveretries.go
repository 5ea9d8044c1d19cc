package experiment

import (
	"time"

	"heddle/sim/dataplane"
	"heddle/sim/host/rc"
	"heddle/sim/hypervisor"
)

// rideResult is a connection whose peer does nothing while its machine is away.
type rideResult struct {
	timeout, retries uint8
	limit            time.Duration // hypervisor.Outlasts
	away             time.Duration // of the function, as measured
	survived         bool
	unheard          time.Duration // of a connection that ended: since its last acknowledgment
	bad              error
}

// rides are the transport timers and retries of the calculator that are simulated, and
// by what part of the limit the attach is stretched; 0: the published times as they are.
var rides = []struct {
	timeout, retries uint8
	part             float64
}{
	{18, 7, 0},
	{18, 2, 0},
	{18, 1, 0},
	{17, 7, 0},
	{17, 4, 0},
	{17, 3, 0},
	{16, 7, 0},
	{15, 7, 0},
	{14, 7, 0},
	{18, 7, 0.98},
	{18, 7, 1.02},
	{17, 7, 0.98},
	{17, 7, 1.02},
	{19, 3, 0.98},
	{19, 3, 1.02},
}

// rideMemory is that of the machine: late detach, so pre-copy does not count.
const rideMemory = 16 << 20

// predicted is what the calculator says.
func (r *rideResult) predicted() bool { return r.away < r.limit }

// runRide migrates a machine with a LID of its own, to which a program on B sends all
// the time; nobody quiets the connection.
func runRide(timeout, retries uint8, part float64, seed uint64) (*rideResult, error) {
	b, err := newLiveBed(hypervisor.VSwitch, seed, 1)
	if err != nil {
		return nil, err
	}
	m, err := b.Create("VMa", hostA, 1)
	if err != nil {
		return nil, err
	}
	s := rc.Sender{Timeout: timeout, Retries: retries, RNRRetries: 7}
	// One message at a time: what is sent after the first that is lost restarts the timer.
	p := b.pulse(seed)
	p.Depth, p.Gap = 1, dataplane.FromDuration(time.Millisecond)
	x, err := m.Connect(hostB, false, b.options(), s, p)
	if err != nil {
		return nil, err
	}
	b.Run(100 * time.Millisecond)
	r := &rideResult{timeout: timeout, retries: retries, limit: hypervisor.Outlasts(timeout, retries)}
	c := b.migration(rideMemory, true, seed)
	if part > 0 { // stop-and-copy and the manager take what they take: the attach is the rest
		c.Copy.Dirty = 0
		c.Cost.Attach = time.Duration(part*float64(r.limit)) - c.Cost.Detach
	}
	v, err := b.watch(m, hostC, c, 10*time.Millisecond, func() {})
	if err != nil {
		return nil, err
	}
	r.away = v.Away()
	b.Run(2 * r.limit / time.Duration(max(retries, 1))) // the next retry, or the end
	x.Stop()
	b.Run(3 * time.Second)
	b.Sim.Data()
	st, at := x.Failed()
	if r.survived = st == rc.Success; !r.survived {
		r.unheard = (at - x.Theirs.QP().LastNews()).Duration()
	}
	r.bad = x.Check()
	return r, b.Engine.Check()
}
