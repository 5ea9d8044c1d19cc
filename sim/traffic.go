package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"heddle/fabric"
	"heddle/sim/dataplane"
	"heddle/traffic"
	"heddle/traffic/inject"
)

// PacketsPerSecond is how many packets all patterns together make in a second of a
// simulation in real time, if nothing else is asked for: about a tenth of a
// processor.
const PacketsPerSecond = 20_000

// trafficPace is how often packets are caught up with in real time.
const trafficPace = 5 * time.Millisecond

// Traffic is a pattern that runs.
type Traffic struct {
	Number int
	Text   string // the pattern
	// Scale is by how much the rates of the pattern are reduced, so that the
	// simulation keeps up with real time: above 0, at most 1.
	Scale float64
	Rate  float64 // packets a second that it makes
	Ended bool

	Created, Delivered, Dropped uint64 // packets so far

	streams []int
}

// StartTraffic starts a pattern (see traffic.Parse) under the tables of the
// devices, with at most perSecond packets a second: rates are reduced in
// proportion. Hosts are numbered by their switches and the ports there; LIDs may
// come later. The first pattern starts the data plane. Sources that have no rate,
// collective operations and traces need the whole processor; `heddle traffic` has
// them.
func (s *Subnet) StartTraffic(text string, seed uint64, perSecond float64) (Traffic, error) {
	spec, err := traffic.Parse(text)
	if err != nil {
		return Traffic{}, err
	}
	switch {
	case perSecond <= 0:
		return Traffic{}, fmt.Errorf("sim: %v packets a second; more than 0 are required", perSecond)
	case spec.Arrival == traffic.Saturated || spec.Arrival == traffic.Closed:
		return Traffic{}, fmt.Errorf("sim: traffic %q: a %v source has no rate that can be reduced to what this machine simulates in real time; use poisson, constant or onoff", text, spec.Arrival)
	}
	hosts, refs := s.trafficHosts()
	demand, err := spec.Bind(hosts, seed, nil)
	if err != nil {
		return Traffic{}, err
	}
	if len(demand.Steps) > 0 || len(demand.Messages) > 0 || demand.Members != nil {
		return Traffic{}, fmt.Errorf("sim: traffic %q: only streams run in real time; ask 'heddle traffic' about collectives, traces and broadcasts", text)
	}
	if s.data == nil {
		c := dataplane.Defaults()
		c.Details = true // for people with perfquery
		if _, err := s.StartData(c, dataplane.DefaultCable); err != nil {
			return Traffic{}, err
		}
		s.PaceData(trafficPace)
	}
	return s.addTraffic(spec, demand, hosts, refs, perSecond)
}

// addTraffic adds the streams of a demand.
func (s *Subnet) addTraffic(spec *traffic.Spec, demand *traffic.Demand, hosts []traffic.Host, refs []fabric.Ref, perSecond float64) (Traffic, error) {
	e := s.Data()
	at := map[fabric.Ref]int{}
	for i := range e.NumHosts() {
		at[e.HostPort(i)] = i
	}
	ends := make(inject.Ends, len(hosts))
	for i, r := range refs {
		ends[i] = at[r]
	}
	t := Traffic{Text: spec.Text, Scale: 1, Number: len(s.data.traffic) + 1}
	for i := range demand.Streams {
		x := &demand.Streams[i]
		t.Rate += hosts[x.Src].Gbps * x.Rate * spec.Duty() * 1e9 / 8 / float64(inject.Bytes(spec))
	}
	t.Scale = min(1, perSecond/t.Rate)
	t.Rate *= t.Scale
	for i := range demand.Streams {
		x := &demand.Streams[i]
		d := ends.Stream(spec, x, hosts[x.Src].Gbps*x.Rate*t.Scale)
		d.Start += e.Now()
		if d.End > 0 {
			d.End += e.Now()
		}
		n, err := e.AddStream(d)
		if err != nil {
			s.endStreams(t.streams)
			return Traffic{}, err
		}
		t.streams = append(t.streams, n)
	}
	s.data.traffic = append(s.data.traffic, t)
	return t, nil
}

func (s *Subnet) endStreams(list []int) {
	for _, n := range list {
		s.data.engine.EndStream(n)
	}
}

// StopTraffic ends a pattern, or with number 0 all of them.
func (s *Subnet) StopTraffic(number int) error {
	if s.data == nil || number < 0 || number > len(s.data.traffic) {
		return fmt.Errorf("sim: no traffic has the number %d", number)
	}
	s.catchUp(s.k.now)
	for i := range s.data.traffic {
		if t := &s.data.traffic[i]; (number == 0 || t.Number == number) && !t.Ended {
			s.endStreams(t.streams)
			t.Ended = true
		}
	}
	return nil
}

// ListTraffic is the patterns that were started, with what became of their packets.
func (s *Subnet) ListTraffic() []Traffic {
	e := s.Data()
	if e == nil {
		return nil
	}
	list := slices.Clone(s.data.traffic)
	for i := range list {
		for _, n := range list[i].streams {
			f := e.Flow(n)
			list[i].Created += f.Created
			list[i].Delivered += f.Delivered
			list[i].Dropped += f.Dropped
		}
		list[i].streams = nil
	}
	return list
}

// trafficHosts lists the ports of adapters and routers with a cable to a switch, in
// the order of switches and their ports.
func (s *Subnet) trafficHosts() (hosts []traffic.Host, refs []fabric.Ref) {
	type place struct {
		host traffic.Host
		port uint8 // of the switch
	}
	var list []place
	for i := range s.ports {
		pt := &s.ports[i]
		d := &s.devs[pt.dev]
		if pt.num == 0 || d.isSwitch() || s.cables[i] < 0 || !s.devs[s.ports[s.cables[i]].dev].isSwitch() {
			continue
		}
		p := s.f.Port(s.portRef(int32(i)))
		list = append(list, place{traffic.Host{
			Name: s.f.Nodes[pt.dev].Name(), ID: s.f.Nodes[pt.dev].ID, Port: s.portRef(int32(i)), Switch: s.ports[s.cables[i]].dev,
			LID: pt.lid, Gbps: float64(p.Width.Lanes()) * p.Speed.DataGbps(),
		}, s.ports[s.cables[i]].num})
	}
	slices.SortFunc(list, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.host.Switch, b.host.Switch), cmp.Compare(a.port, b.port))
	})
	for _, p := range list {
		hosts, refs = append(hosts, p.host), append(refs, p.host.Port)
	}
	return hosts, refs
}

// cmdTraffic starts, stops and lists patterns.
func (s *Subnet) cmdTraffic(a []string, out *strings.Builder) error {
	switch {
	case len(a) == 0 || len(a) == 1 && a[0] == "list":
		list := s.ListTraffic()
		if len(list) == 0 {
			out.WriteString("no traffic\n")
		}
		for _, t := range list {
			fmt.Fprintf(out, "%v\n", t)
		}
	case a[0] == "start" && len(a) >= 2 && len(a) <= 3:
		rate := float64(PacketsPerSecond)
		if len(a) == 3 {
			var err error
			if rate, err = strconv.ParseFloat(a[2], 64); err != nil {
				return errUsage
			}
		}
		t, err := s.StartTraffic(unquote(a[1]), s.cfg.Seed, rate)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%v\n", t)
	case a[0] == "stop" && len(a) <= 2:
		n := 0
		if len(a) == 2 {
			var err error
			if n, err = strconv.Atoi(a[1]); err != nil {
				return errUsage
			}
		}
		return s.StopTraffic(n)
	default:
		return errUsage
	}
	return nil
}

// String prints a line: "1  random  8% of its rates, 20000 packets/s: 812 made, 811 delivered, 0 lost".
func (t Traffic) String() string {
	how := "its full rates"
	if t.Scale < 1 {
		how = strconv.FormatFloat(t.Scale*100, 'g', 3, 64) + "% of its rates"
	}
	if t.Ended {
		how = "ended"
	}
	return fmt.Sprintf("%d  %s  %s, %.0f packets/s: %d made, %d delivered, %d lost", t.Number, t.Text, how, t.Rate, t.Created, t.Delivered, t.Dropped)
}
