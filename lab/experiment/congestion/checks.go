package congestion

import (
	"fmt"
	"math"
	"time"

	"heddle/ib"
	"heddle/ib/cc"
	"heddle/lab/experiment/bed"
	"heddle/report"
	"heddle/route/engine/ftree"
	"heddle/route/engine/minhop"
	"heddle/sim/dataplane"
)

// check is a validation case: V43 to V45. V46 is the crowd.
type check struct {
	id, what   string
	want, got  float64
	unit, must string
	holds      bool
}

// pinned is V43: a sender whose index stands at i.
func pinned(seed uint64) (list []check, err error) {
	for _, x := range []struct {
		t table
		i uint8
	}{{simula(), 60}, {simula(), 127}, {mellanox(), 60}, {mellanox(), 127}} {
		s := settings{timer: 150, least: x.i, table: x.t}
		r := bed.Run{Fabric: bed.PairFabric, Engine: minhop.Engine{}, Lanes: 1, Buffers: bed.Wide()}
		b, err := r.Start(seed)
		if err != nil {
			return nil, err
		}
		if err := s.apply(b); err != nil {
			return nil, err
		}
		if err := b.AddApart(pairFlows[:1]); err != nil {
			return nil, err
		}
		b.Run(time.Millisecond)
		d := x.t.entry[x.i]
		cable := bed.Gbps(bed.Bytes, dataplane.LinkRate(ib.Width4x, ib.SpeedDDR).Time(bed.Bytes).Duration())
		want := 1 / (1 + float64(d.Multiplier())/float64(int(1)<<d.Shift()))
		got := b.Measure(40 * time.Millisecond)[0] / cable
		list = append(list, check{
			"V43", fmt.Sprintf("index pinned at %d of %s: 1/(1 + %d/2^%d)", x.i, x.t.name, d.Multiplier(), d.Shift()),
			want, got, "of the cable", "± 0.5 %", bed.Near(got, want, 0.005),
		})
	}
	return list, nil
}

// decay is V44: after the last notification an index falls from 127 to 0 in 127 times of
// its timer.
func decay(seed uint64) (check, error) {
	s := gran()
	s.increase = 127
	r := bed.Run{Fabric: bed.PairFabric, Engine: minhop.Engine{}, Lanes: 1, Buffers: bed.Wide()}
	b, err := r.Start(seed)
	if err != nil {
		return check{}, err
	}
	if err := s.apply(b); err != nil {
		return check{}, err
	}
	if err := b.AddApart(pairFlows); err != nil {
		return check{}, err
	}
	const contributor = 2
	const step = 10 * time.Microsecond
	for range 100 {
		if b.Run(step); b.Engine.Index(contributor, 0) == 127 {
			break
		}
	}
	s.threshold = 0
	s.begin(b) // marks end when the switches have it
	high, zero := time.Duration(-1), time.Duration(0)
	var at time.Duration
	for ; at < 50*time.Millisecond; at += step {
		switch i := b.Engine.Index(contributor, 0); {
		case i == 127:
			high, zero = at, 0
		case i == 0 && zero == 0:
			zero = at
		}
		b.Run(step)
	}
	if !held(b) {
		return check{}, fmt.Errorf("threshold 0 is not written: %+v", b.Manager.CongestionStatus())
	}
	const tick = 150 * cc.TimeUnit * time.Nanosecond
	want, got := (127*tick).Seconds()*1000, (zero-high).Seconds()*1000
	return check{
		"V44", "from index 127 to 0 without notifications, timer 150", want, got, "ms", "± a timer",
		high >= 0 && zero > 0 && math.Abs(got-want) <= (tick+step).Seconds()*1000,
	}, b.Engine.Check()
}

// off is V45: threshold 0 is no congestion control. It says whether the histories are
// equal, and how many packets were marked.
func off(seed uint64) (check, error) {
	t, err := bed.FullTree(72)
	if err != nil {
		return check{}, err
	}
	var hash [2]uint64
	marked := uint64(0)
	var took time.Duration
	for k := range hash {
		b, err := t.Up(seed, ftree.Engine{}, bed.TreeConfig(seed, 1))
		if err != nil {
			return check{}, err
		}
		if k == 0 {
			s := gran()
			s.threshold = 0
			began := b.Cluster.Sim.Now()
			if err := s.apply(b); err != nil {
				return check{}, err
			}
			took = b.Cluster.Sim.Now().Sub(began)
		} else {
			b.Run(took)
		}
		if err := t.Offer(b, 1, dataplane.DestQueue); err != nil {
			return check{}, err
		}
		b.Run(500 * time.Microsecond)
		hash[k] = b.Engine.Stats().Hash
		marked += marks(b)
	}
	same := 0.0
	if hash[0] == hash[1] {
		same = 1
	}
	return check{
		"V45", fmt.Sprintf("threshold 0, as without congestion control (marked: %d)", marked), 1, same,
		"equal histories", "equal, none marked", same == 1 && marked == 0,
	}, nil
}

// checks runs V43 to V45.
func checks(seed uint64) ([]check, error) {
	list, err := pinned(seed)
	if err != nil {
		return nil, fmt.Errorf("V43: %w", err)
	}
	d, err := decay(seed)
	if err != nil {
		return nil, fmt.Errorf("V44: %w", err)
	}
	o, err := off(seed)
	if err != nil {
		return nil, fmt.Errorf("V45: %w", err)
	}
	return append(list, d, o), nil
}

func checkSection(list []check) report.Section {
	s := report.Section{
		Title: "Validation cases V43 to V45",
		Text: "Switches and adapters obey settings that the manager has written to them. V46 is " +
			"the crowd below.",
		Table: report.Table{Columns: []string{"case", "what", "expected", "here", "unit"}},
	}
	for i := range list {
		c := &list[i]
		s.Table.Rows = append(s.Table.Rows, []any{c.id, c.what, c.want, c.got, c.unit})
		s.Claim = append(s.Claim, bed.Claim(c.id+": "+c.what, fmt.Sprintf("- (%.4g %s, %s)", c.want, c.unit, c.must), c.holds,
			"%.4g", c.got))
	}
	return s
}
