package traffic

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"
)

// Bind applies a pattern to the hosts of a fabric. The seed decides what is
// drawn. trace are the messages of a Trace (ReadTrace), nil for other patterns.
// Errors are *SpecError.
func (s *Spec) Bind(hosts []Host, seed uint64, trace []Message) (*Demand, error) {
	d := &Demand{Spec: s, Hosts: len(hosts), Sender: -1}
	var who []int32
	for i := range hosts {
		if s.matches(&hosts[i]) {
			who = append(who, int32(i))
		}
	}
	if err := s.enough(hosts, who); err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(seed, uint64(s.Kind)+1))
	var err error
	switch s.Kind {
	case Permutation:
		perm := r.Perm(len(who))
		d.addPairs(who, func(i int) int { return perm[i] })
	case Shift:
		err = s.shift(d, who)
	case Random:
		for _, h := range who {
			d.Streams = append(d.Streams, Stream{Src: h, To: -1, Among: who})
		}
	case Bisection:
		d.bisect(who, r.Perm(len(who)), s.Both)
	case Hot:
		err = s.hot(d, who, r)
	case Pair:
		err = s.pair(d, hosts)
	case RingAllReduce, RecursiveDoubling, AllToAll:
		d.Steps = s.steps(who)
	case Broadcast:
		d.Members, d.Sender = who, who[0]
		if s.Src != "" {
			if d.Sender, err = s.find(hosts, s.Src); err == nil && !slices.Contains(who, d.Sender) {
				err = s.wrong("%q is not one of the hosts that hosts= chooses", s.Src)
			}
		}
		d.Streams = []Stream{{Src: d.Sender, To: -1}}
	case Trace:
		d.Messages = trace
		if len(trace) == 0 {
			err = s.wrong("the trace has no messages")
		}
	}
	if err != nil {
		return nil, err
	}
	return d, d.rates(hosts)
}

func (s *Spec) wrong(format string, a ...any) error {
	return &SpecError{Spec: s.Text, Problem: fmt.Sprintf(format, a...)}
}

// enough reports a pattern that chooses no host, or too few.
func (s *Spec) enough(hosts []Host, who []int32) error {
	switch {
	case len(hosts) < 2:
		return s.wrong("the fabric has %d hosts with a LID and a cable to a switch; 2 are needed", len(hosts))
	case len(who) == 0:
		return s.wrong("hosts= names no host of the fabric; names are %s", names(hosts))
	case len(who) == 1:
		return s.wrong("hosts= chooses only %q; 2 hosts are needed", hosts[who[0]].Name)
	}
	return nil
}

// names are the first and the last name of hosts, for messages.
func names(hosts []Host) string {
	return fmt.Sprintf("%q to %q", hosts[0].Name, hosts[len(hosts)-1].Name)
}

// addPairs adds a stream from each host to its image, none to itself.
func (d *Demand) addPairs(who []int32, image func(i int) int) {
	for i, h := range who {
		if j := image(i); j != i {
			d.Streams = append(d.Streams, Stream{Src: h, To: who[j], Share: 1})
		}
	}
}

func (s *Spec) shift(d *Demand, who []int32) error {
	n := len(who)
	k := (s.K%n + n) % n
	if k == 0 {
		return s.wrong("there are %d hosts, so each would send to itself", n)
	}
	d.addPairs(who, func(i int) int { return (i + k) % n })
	return nil
}

// bisect adds a stream from each host of the first half of order to one of the
// second. An odd host is idle.
func (d *Demand) bisect(who []int32, order []int, both bool) {
	half := len(order) / 2
	peer := make([]int, len(order))
	for i := range peer {
		peer[i] = i
	}
	for i := range half {
		peer[order[i]] = order[half+i]
		if both {
			peer[order[half+i]] = order[i]
		}
	}
	d.addPairs(who, func(i int) int { return peer[i] })
}

// hot draws the hot hosts. Every other host has one of them, in turn; a hot host
// sends all its packets to random hosts.
func (s *Spec) hot(d *Demand, who []int32, r *rand.Rand) error {
	if s.Spots >= len(who) {
		return s.wrong("%d hot hosts among %d; at least one host must be left to send", s.Spots, len(who))
	}
	if s.Share < 1 && len(who) < 3 {
		return s.wrong("3 hosts are needed")
	}
	spots := make([]int32, s.Spots)
	hot := map[int32]bool{}
	for i, k := range r.Perm(len(who))[:s.Spots] {
		spots[i] = who[k]
		hot[who[k]] = true
	}
	next := 0
	for _, h := range who {
		x := Stream{Src: h, To: -1, Among: who}
		if !hot[h] {
			x.To, x.Share = spots[next%len(spots)], s.Share
			next++
		} else if s.Share == 1 {
			continue
		}
		if x.Share == 1 {
			x.Among = nil
		}
		d.Streams = append(d.Streams, x)
	}
	return nil
}

func (s *Spec) pair(d *Demand, hosts []Host) error {
	src, err := s.find(hosts, s.Src)
	if err != nil {
		return err
	}
	dst, err := s.find(hosts, s.Dst)
	if err != nil {
		return err
	}
	if src == dst {
		return s.wrong("%q sends to itself", s.Src)
	}
	d.Streams = []Stream{{Src: src, To: dst, Share: 1}}
	return nil
}

// Find returns the host with a name, ID or LID, -1: none.
func Find(hosts []Host, name string) int32 {
	for i := range hosts {
		if hosts[i].Name == name || hosts[i].ID == name {
			return int32(i)
		}
	}
	if lid, err := strconv.ParseUint(name, 0, 16); err == nil {
		for i := range hosts {
			if uint64(hosts[i].LID) == lid {
				return int32(i)
			}
		}
	}
	return -1
}

func (s *Spec) find(hosts []Host, name string) (int32, error) {
	h := Find(hosts, name)
	if h < 0 {
		return -1, s.wrong("no host has the name or LID %q; names are %s", name, names(hosts))
	}
	return h, nil
}

// steps are those of a collective operation.
func (s *Spec) steps(who []int32) (out []Step) {
	n := len(who)
	shift := func(k int) [][2]int32 {
		pairs := make([][2]int32, n)
		for i := range pairs {
			pairs[i] = [2]int32{who[i], who[(i+k)%n]}
		}
		return pairs
	}
	switch s.Kind {
	case RingAllReduce:
		return []Step{{shift(1), (s.Size + int64(n) - 1) / int64(n), 2 * (n - 1)}}
	case AllToAll:
		for k := 1; k < n; k++ {
			out = append(out, Step{shift(k), s.Size, 1})
		}
		return out
	}
	// Ranks beyond a power of two give their part to a partner first, and get the
	// result last (R. Thakur, R. Rabenseifner, W. Gropp, 2005).
	p := 1 << (bits.Len(uint(n)) - 1)
	var before, after [][2]int32
	for i := p; i < n; i++ {
		before = append(before, [2]int32{who[i], who[i-p]})
		after = append(after, [2]int32{who[i-p], who[i]})
	}
	if p < n {
		out = append(out, Step{before, s.Size, 1})
	}
	for bit := 1; bit < p; bit <<= 1 {
		var pairs [][2]int32
		for i := range p {
			pairs = append(pairs, [2]int32{who[i], who[i^bit]})
		}
		out = append(out, Step{pairs, s.Size, 1})
	}
	if p < n {
		out = append(out, Step{after, s.Size, 1})
	}
	return out
}

// rates converts the offered rate into shares of the hosts' links.
func (d *Demand) rates(hosts []Host) error {
	for i := range d.Streams {
		x := &d.Streams[i]
		x.Rate = d.Spec.Rate.Share
		if g := d.Spec.Rate.Gbps; g > 0 {
			h := &hosts[x.Src]
			if x.Rate = g / h.Gbps; x.Rate > 1 {
				return d.Spec.wrong("the link of %q carries %.4g Gb/s, and %.4g are asked for", h.Name, h.Gbps, g)
			}
		}
	}
	return nil
}
