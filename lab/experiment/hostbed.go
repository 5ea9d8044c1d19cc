package experiment

import (
	"fmt"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/lab"
	"heddle/lab/experiment/bed"
	"heddle/sa"
	"heddle/sim/dataplane"
	"heddle/sim/host/program"
	"heddle/sim/host/repath"
	"heddle/sm"
)

// hostBed is a subnet under a real manager, which is in the first switch, with
// simulated hosts. Hosts are numbered as in the papers, from 1.
type hostBed struct {
	*lab.Loaded
	hosts []*lab.Host
}

// newHostBed brings up f and starts a host at each adapter.
func newHostBed(f *fabric.Fabric, cfg sm.Config, dc dataplane.Config, hc lab.HostConfig) (*hostBed, error) {
	return newSignalBed(f, cfg, sa.Defaults(), dc, hc)
}

// newSignalBed is newHostBed with an SA as configured.
func newSignalBed(f *fabric.Fabric, cfg sm.Config, sac sa.Config, dc dataplane.Config, hc lab.HostConfig) (*hostBed, error) {
	l, hosts, err := bed.StartHosts(f, bed.HostOptions{SM: cfg, SA: sac, Data: dc, Hosts: hc})
	if err != nil {
		return nil, err
	}
	return &hostBed{l, hosts}, nil
}

// hostTimeout is the code of the transport timers: 33.6 ms, and 268 ms with 7 retries,
// which is longer than whole tables take.
const hostTimeout = 13

// hostConfig is that of hosts: the repath handler of the paper, which asks the SA for all
// paths, and all queue pairs for theirs.
func hostConfig(deaf bool, method repath.Method) lab.HostConfig {
	c := lab.HostDefaults()
	c.Deaf = deaf
	c.Repath.Method = method
	c.Repath.Walk, c.Repath.Generations = true, false
	c.Sender.Timeout = hostTimeout
	return c
}

// streams starts flows between hosts: messages of one packet at random times, which
// offer ringShare of half a cable, as streams of the deadlock experiment do.
func (b *hostBed) streams(flows []bed.Flow, seed uint64) ([]*lab.Stream, error) {
	var list []*lab.Stream
	half := 2 * dataplane.LinkRate(ib.Width4x, ib.SpeedDDR).Time(bed.Bytes)
	for _, f := range flows {
		s, err := b.hosts[f[0]-1].Stream(b.hosts[f[1]-1], program.Stream{
			Bytes: bed.Payload, Depth: 32, Gap: dataplane.Time(float64(half) / ringShare), Seed: seed,
		})
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// rates runs for d and returns what each stream gets, in Gb/s of payload.
func (b *hostBed) rates(list []*lab.Stream, d time.Duration) []float64 {
	was := make([]uint64, len(list))
	for i, s := range list {
		_, was[i] = s.Sink.Got()
	}
	b.Run(d)
	b.Sim.Data()
	x := make([]float64, len(list))
	for i, s := range list {
		_, now := s.Sink.Got()
		x[i] = float64(now-was[i]) * 8 / float64(d.Nanoseconds())
	}
	return x
}

// conserved reports a message that was lost, doubled or out of order.
func conserved(list []*lab.Stream) error {
	for i, s := range list {
		if err := s.Check(); err != nil {
			return fmt.Errorf("stream %v: %w", sixFlows[i], err)
		}
	}
	return nil
}
