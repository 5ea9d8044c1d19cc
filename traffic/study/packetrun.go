package study

import (
	"context"
	"fmt"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/sim/dataplane"
	"heddle/traffic"
)

// PacketPoint is what only packets can tell: means over the seeds. Latencies are
// in µs, from the creation of a packet to its last byte at the host (with the time
// in the source's queue), and from its first byte on the host's link (Network).
type PacketPoint struct {
	Mean   float64 `json:"latency_mean_us"`
	P50    float64 `json:"latency_p50_us"`
	P90    float64 `json:"latency_p90_us"`
	P99    float64 `json:"latency_p99_us"`
	P999   float64 `json:"latency_p999_us"`
	Max    float64 `json:"latency_max_us"`
	NetP50 float64 `json:"network_p50_us"`
	NetP99 float64 `json:"network_p99_us"`
	// Delivered and Discards are packets of a seed; the latter by cause.
	Delivered float64            `json:"delivered"`
	Discards  map[string]float64 `json:"discards"`
	Losses    *Losses            `json:"losses,omitempty"`
	// Deadlocks is how many seeds ended in one; Deadlock describes the first, a
	// line for each buffer of the circle.
	Deadlocks int      `json:"deadlocks"`
	Deadlock  []string `json:"deadlock,omitempty"`
	// Unfinished is how many seeds had a collective that had not ended when nothing
	// moved any more, or at the limit of time.
	Unfinished int `json:"unfinished,omitempty"`
	// Uncut is how many seeds had nothing left to send before the cut.
	Uncut  int    `json:"ended_before_cut,omitempty"`
	Events uint64 `json:"events"`
	// Hash sums up all deliveries: equal for equal histories.
	Hash string `json:"hash"`
}

// Losses are packets that were lost in the network: not at the source.
type Losses struct {
	Packets float64 `json:"packets"`
	Flows   float64 `json:"flows"` // with any
	// Most is the flow with the most of them in a seed, MostPackets how many.
	Most        string  `json:"most"`
	MostPackets float64 `json:"most_packets"`
	// Microseconds is the time from the first loss to the last.
	Microseconds float64 `json:"microseconds"`
	// AtEnd says that packets were still lost for a cut when the run ended.
	AtEnd bool `json:"at_end"`
}

// packetOutcome is that of one seed.
type packetOutcome struct {
	point PacketPoint
	hash  uint64
}

// intervals is how many parts the rates over time have.
const intervals = 50

// run lets packets flow and counts them. It looks at the context between parts.
func (r *packetRun) run(ctx context.Context) (*outcome, error) {
	q := r.q
	end, warm := dataplane.FromDuration(q.Time), dataplane.FromDuration(q.Packets.Warmup)
	if len(r.programs) > 0 {
		warm = 0
		end = max(end, r.limit())
	}
	stops := []dataplane.Time{warm, end}
	for i := range dataplane.Time(intervals) {
		stops = append(stops, warm+(end-warm)*i/intervals)
	}
	cut, repaired := dataplane.Never, dataplane.Never
	if q.Packets.CutAt > 0 && r.s.later != nil {
		cut = dataplane.FromDuration(q.Packets.CutAt)
		stops = append(stops, cut)
		if r.subnet == nil { // else the manager repairs
			repaired = cut + dataplane.FromDuration(q.Packets.RepairTime)
			stops = append(stops, repaired)
		}
	}
	slices.Sort(stops)
	stops = slices.Compact(stops)
	r.out = &outcome{net: r.net, series: &series{rates: make([][]float64, len(q.Specs))}}
	r.countFrom = warm
	r.hooks()
	var bytes []uint64
	last := dataplane.Time(-1)
	for _, t := range stops {
		if t > end {
			break
		}
		if r.until(ctx, t); ctx.Err() != nil {
			if bytes != nil {
				last = r.e.Now()
			}
			break
		}
		r.tell(float64(t) / float64(end))
		if t == cut {
			if err := r.cut(); err != nil {
				return nil, err
			}
		}
		if t == repaired {
			r.write(r.s.later)
		}
		switch {
		case t == warm:
			r.e.ResetStats()
			r.before = r.counters()
			r.lanes = r.lanePackets()
			bytes, last = make([]uint64, len(q.Specs)), t
		case t > warm:
			now := r.delivered()
			r.out.series.at = append(r.out.series.at, last.Seconds()*1e6)
			for k := range now {
				rate := float64(now[k]-bytes[k]) * 8000 / float64(t-last)
				r.out.series.rates[k] = append(r.out.series.rates[k], rate)
			}
			r.out.series.lost = append(r.out.series.lost, r.newlyLost)
			r.newlyLost = 0
			bytes, last = now, t
		}
		if r.stopped() {
			break
		}
	}
	if last <= warm {
		return nil, nil // interrupted
	}
	r.out.series.at = append(r.out.series.at, last.Seconds()*1e6)
	r.finish(warm, last)
	if cut != dataplane.Never && last < cut && ctx.Err() == nil {
		r.out.packets.point.Uncut = 1
	}
	return r.out, nil
}

// runTo runs what happens before t.
func (r *packetRun) runTo(t dataplane.Time) {
	if r.subnet != nil {
		r.subnet.RunTo(t)
		return
	}
	r.e.Run(t)
}

// cut loses the cables of the question.
func (r *packetRun) cut() error {
	for _, c := range r.q.Cuts {
		if r.subnet == nil {
			r.e.CutLink(c)
		} else if err := r.subnet.Cut(c); err != nil {
			return err
		}
	}
	return nil
}

// slice is how much virtual time passes between two looks at the context.
const slice = 10 * dataplane.Microsecond

// until runs to t, with the messages of traces that are due before.
func (r *packetRun) until(ctx context.Context, t dataplane.Time) {
	for len(r.posts) > 0 && r.posts[0].at < t {
		p := r.posts[0]
		r.posts = r.posts[1:]
		r.runTo(max(p.at, r.e.Now()))
		r.e.Post(p.stream, p.packets)
	}
	if t == 0 {
		for _, p := range r.programs {
			p.begin()
		}
	}
	for ctx.Err() == nil && r.e.Now() < t {
		r.runTo(min(r.e.Now()+slice, t))
	}
}

// stopped reports whether all collectives have ended, if there are any, or nothing
// will move.
func (r *packetRun) stopped() bool {
	if len(r.programs) == 0 {
		return false
	}
	for _, p := range r.programs {
		if p.left > 0 {
			return r.e.Next() == dataplane.Never
		}
	}
	return true
}

// limit is how long collectives may take: 20 times what they would on free links.
func (r *packetRun) limit() (t dataplane.Time) {
	for _, p := range r.programs {
		t = max(t, 20*p.ideal)
	}
	return t
}

func (r *packetRun) hooks() {
	h := dataplane.Hooks{OnDrop: r.dropped}
	defer func() { r.e.SetHooks(h) }()
	r.lost = make([]uint64, len(r.streams))
	if len(r.programs) == 0 {
		return
	}
	of := make([]*program, len(r.streams))
	for _, p := range r.programs {
		for s := range p.streams {
			of[s] = p
		}
	}
	h.OnDeliver = func(d *dataplane.Delivery) {
		if p := of[d.Stream]; p != nil {
			p.delivered(d.Stream, d.At)
		}
	}
}

// dropped counts a packet that is lost in the network.
func (r *packetRun) dropped(d *dataplane.Drop) {
	if d.Cause == dataplane.SourceFull || d.At < r.countFrom {
		return
	}
	if r.lost[d.Stream]++; r.firstLoss == 0 {
		r.firstLoss = d.At
	}
	r.lastLoss = d.At
	r.newlyLost++
}

// losses sums up what dropped has counted.
func (r *packetRun) losses() *Losses {
	x := &Losses{Microseconds: (r.lastLoss - r.firstLoss).Seconds() * 1e6}
	for s, n := range r.lost {
		if n == 0 {
			continue
		}
		x.Packets += float64(n)
		x.Flows++
		if of := &r.streams[s]; float64(n) > x.MostPackets {
			x.MostPackets = float64(n)
			x.Most = r.q.flowName(&flowRate{src: of.src, dst: of.dst, dests: of.dests})
		}
	}
	if x.Packets == 0 {
		return nil
	}
	return x
}

// delivered is the bytes of each pattern.
func (r *packetRun) delivered() []uint64 {
	out := make([]uint64, len(r.q.Specs))
	for s := range r.streams {
		out[r.streams[s].demand] += r.e.Flow(s).Bytes
	}
	return out
}

// from is the sending port of a channel.
func (r *packetRun) from(c int) fabric.Ref {
	from, _ := r.net.Ends(int32(c), r.q.Fabric, r.sw)
	return from
}

func (r *packetRun) counters() []dataplane.PortCounters {
	out := make([]dataplane.PortCounters, r.net.Channels())
	for c := range out {
		out[c] = r.e.Port(r.from(c))
	}
	return out
}

func (r *packetRun) lanePackets() [][]uint64 {
	out := make([][]uint64, r.net.Channels())
	for c := range out {
		from := r.from(c)
		for v := range r.q.VLs {
			n, _ := r.e.Lane(from, ib.VL(v))
			out[c] = append(out[c], n)
		}
	}
	return out
}

// finish reads what was counted from warm to end.
func (r *packetRun) finish(warm, end dataplane.Time) {
	o, took := r.out, float64(end-warm)
	gbps := func(bytes float64) float64 { return bytes * 8000 / took }
	o.flows = r.gone
	for s, x := range r.streams {
		if x.silent {
			continue
		}
		f := r.e.Flow(s)
		copies := 1.0 // that arrive of each packet
		if r.q.Specs[x.demand].Kind == traffic.Broadcast {
			copies = float64(x.dests)
		}
		y := flowRate{demand: x.demand, src: x.src, dst: x.dst, dests: x.dests}
		y.offered = gbps(float64(f.Created) * float64(x.bytes))
		if x.offered > 0 {
			y.offered = x.offered
		}
		y.accepted = gbps(float64(f.Bytes) / copies)
		o.flows = append(o.flows, y)
	}
	now, lanes := r.counters(), r.lanePackets()
	n := len(now)
	o.used, o.wait, o.lanes = make([]float64, n), make([]float64, n), lanes
	for c := range now {
		words, packets := now[c].XmitWords-r.before[c].XmitWords, now[c].XmitPackets-r.before[c].XmitPackets
		o.used[c] = gbps(float64(4*words + 2*packets))
		o.wait[c] = float64(now[c].XmitWait-r.before[c].XmitWait) / took
		for v := range lanes[c] {
			lanes[c][v] -= r.lanes[c][v]
		}
	}
	for _, p := range r.programs {
		o.seconds = max(o.seconds, p.ended.Seconds())
		o.ideal = max(o.ideal, p.ideal.Seconds())
	}
	o.packets = r.packetOutcome()
}

func (r *packetRun) packetOutcome() *packetOutcome {
	st := r.e.Stats()
	us := func(t dataplane.Time) float64 { return t.Seconds() * 1e6 }
	p := PacketPoint{
		Mean: us(st.Latency.Mean()), P50: us(st.Latency.Quantile(0.5)), P90: us(st.Latency.Quantile(0.9)),
		P99: us(st.Latency.Quantile(0.99)), P999: us(st.Latency.Quantile(0.999)), Max: us(st.Latency.Max),
		NetP50: us(st.Network.Quantile(0.5)), NetP99: us(st.Network.Quantile(0.99)),
		Delivered: float64(st.Delivered), Discards: map[string]float64{}, Events: r.e.Events(),
	}
	for c, n := range st.Dropped {
		if n > 0 {
			p.Discards[dataplane.Cause(c).String()] = float64(n)
		}
	}
	if p.Losses = r.losses(); p.Losses != nil {
		p.Losses.AtEnd = r.s.later != nil && r.e.Now()-r.lastLoss < (r.e.Now()-r.countFrom)/intervals
	}
	if d := r.e.Deadlock(); d != nil {
		p.Deadlocks = 1
		p.Deadlock = append(p.Deadlock,
			fmt.Sprintf("at %v: %d buffers cannot move, %d of them in a circle", d.At, d.Stuck, len(d.Cycle)))
		for _, w := range d.Cycle {
			p.Deadlock = append(p.Deadlock, fmt.Sprintf("%s lane %d waits for %s lane %d with a packet for %s",
				r.q.name.port(w.In), w.VL, r.q.name.port(w.Out), w.Lane, r.q.lidName(w.DLID)))
		}
	}
	for _, x := range r.programs {
		if x.left > 0 {
			p.Unfinished = 1
		}
	}
	return &packetOutcome{point: p, hash: st.Hash}
}

// lidName names a LID with its host.
func (q *Question) lidName(l ib.LID) string {
	for i := range q.hosts {
		if q.hosts[i].LID == l {
			return fmt.Sprintf("LID %d (%s)", l, q.hosts[i].Name)
		}
	}
	return fmt.Sprintf("LID %d", l)
}

// packetSummary is the mean over seeds; nil: no packets.
func packetSummary(outs []*outcome) *PacketPoint {
	if outs[0].packets == nil {
		return nil
	}
	sum := PacketPoint{Discards: map[string]float64{}}
	k, hash := float64(len(outs)), uint64(0)
	for _, o := range outs {
		p := &o.packets.point
		for _, x := range [][2]*float64{
			{&sum.Mean, &p.Mean},
			{&sum.P50, &p.P50},
			{&sum.P90, &p.P90},
			{&sum.P99, &p.P99},
			{&sum.P999, &p.P999},
			{&sum.NetP50, &p.NetP50},
			{&sum.NetP99, &p.NetP99},
			{&sum.Delivered, &p.Delivered},
		} {
			*x[0] += *x[1] / k
		}
		sum.Max = max(sum.Max, p.Max)
		for c, n := range p.Discards {
			sum.Discards[c] += n / k
		}
		sum.addLosses(p.Losses, k)
		if sum.Deadlock == nil {
			sum.Deadlock = p.Deadlock
		}
		sum.Deadlocks += p.Deadlocks
		sum.Unfinished += p.Unfinished
		sum.Uncut += p.Uncut
		sum.Events += p.Events
		hash = hash*31 + o.packets.hash
	}
	sum.Hash = fmt.Sprintf("%016x", hash)
	return &sum
}

// addLosses adds those of one of k seeds.
func (p *PacketPoint) addLosses(x *Losses, k float64) {
	if x == nil {
		return
	}
	if p.Losses == nil {
		p.Losses = &Losses{}
	}
	l := p.Losses
	l.Packets += x.Packets / k
	l.Flows += x.Flows / k
	l.AtEnd = l.AtEnd || x.AtEnd
	l.Microseconds = max(l.Microseconds, x.Microseconds)
	if x.MostPackets > l.MostPackets {
		l.Most, l.MostPackets = x.Most, x.MostPackets
	}
}

// Text describes losses.
func (l *Losses) Text() string {
	end := ""
	if l.AtEnd {
		end = "; still when the run ended, so give more --time to see the end"
	}
	return fmt.Sprintf("%.0f packets of %.4g flows lost in the network within %.4g µs; most of %s: %.0f%s",
		l.Packets, l.Flows, l.Microseconds, l.Most, l.MostPackets, end)
}
