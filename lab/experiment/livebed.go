package experiment

import (
	"fmt"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/lab"
	"heddle/lab/experiment/bed"
	"heddle/sim"
	"heddle/sim/dataplane"
	"heddle/sim/host/adapter"
	"heddle/sim/host/program"
	"heddle/sim/host/rc"
	"heddle/sim/hypervisor"
	"heddle/sim/hypervisor/precopy"
	"heddle/sm"
)

// The hosts of Paper V: three, on one switch.
const (
	hostA = iota
	hostB
	hostC
	liveHosts
)

// liveGbps is what a host of Paper V sends and takes, in Gb/s of payload: QDR on a PCIe 2
// slot.
const liveGbps = 25

// liveTimeout and liveRetries are those of connections: 1.07 s, and 7.5 s in all.
const (
	liveTimeout = 18
	liveRetries = 7
)

// liveBed is the test bed of Paper V under a real manager, with times divided by scale.
type liveBed struct {
	*lab.Machines
	scale int
}

func newLiveBed(way hypervisor.Way, seed uint64, scale int) (*liveBed, error) {
	b := &fabric.Builder{Width: ib.Width4x, Speed: ib.SpeedQDR}
	s := b.AddSwitch("S", liveHosts)
	for i := range liveHosts {
		b.Connect(s, i+1, b.AddCA(fmt.Sprintf("Host %c", 'A'+i), 1), 1)
	}
	f, err := b.Build()
	if err != nil {
		return nil, err
	}
	dc := dataplane.Defaults()
	dc.Seed = seed
	h, err := lab.StartMachines(f, way, sim.Config{
		Seed: seed, HopLatency: hopLatency / time.Duration(scale), SMALatency: smaLatency / time.Duration(scale), Carriage: sim.Apart,
	}, liveConfig(), dc)
	if err != nil {
		return nil, err
	}
	h.Manager.JobTime = lab.LoadedJob / time.Duration(scale)
	rate := dataplane.Cap(liveGbps, bed.Payload, bed.Bytes)
	for i := range liveHosts {
		h.Engine.SetCaps(i, rate, rate)
		h.Adapters[i].Loopback = rate
	}
	return &liveBed{h, scale}, nil
}

// liveConfig is the manager's configuration.
func liveConfig() sm.Config { return lab.DefaultConfig() }

// options and sender are those of connections. In compressed time the transport timer is
// that of a code of so many fewer, which is not quite a hundredth.
func (b *liveBed) options() adapter.Options {
	return adapter.Options{MTU: bed.Payload, Window: 256, AckEvery: 32}
}

func (b *liveBed) sender() rc.Sender {
	code := uint8(liveTimeout)
	for n := b.scale; n > 1; n /= 2 {
		code--
	}
	return rc.Sender{Timeout: code, Retries: liveRetries, RNRRetries: 7}
}

// migration is the configuration of a migration of so many bytes, in compressed time.
func (b *liveBed) migration(memory int64, late bool, seed uint64) hypervisor.Config {
	k := precopy.Defaults()
	k.Memory = memory
	return hypervisor.Config{
		Late: late, Copy: hypervisor.ScaleCopy(k, b.scale), Cost: hypervisor.Published().Scale(b.scale), Seed: seed,
	}
}

// real is the true time of a compressed one.
func (b *liveBed) real(d time.Duration) time.Duration { return d * time.Duration(b.scale) }

// watch migrates a machine, and calls look each so often until it has ended.
func (b *liveBed) watch(m *lab.Machine, to int, c hypervisor.Config, every time.Duration, look func()) (*lab.Move, error) {
	v, err := m.Migrate(to, c, b.options(), b.sender())
	if err != nil {
		return nil, err
	}
	for began := b.Sim.Now(); !v.Ended(); {
		if b.Sim.Now().Sub(began) > time.Minute {
			return nil, fmt.Errorf("the migration does not end: %+v", v.Marks())
		}
		b.Run(every)
		b.Sim.Data()
		look()
	}
	return v, v.Err()
}

// pulse is a stream that shows outages: a small message every so often.
func (b *liveBed) pulse(seed uint64) program.Stream {
	return program.Stream{Bytes: bed.Payload, Depth: 64, Gap: dataplane.FromDuration(livePulse), Seed: seed}
}

// livePulse is the mean time between two messages of a pulse.
const livePulse = 500 * time.Microsecond
