package check

import (
	"heddle/fabric"
	"heddle/ib"
)

// blame counts the pairs that a LID fails and describes where they end.
func (j *verifier) blame(w *scratch, fails []Failure, l ib.LID, owner int32, entries []byte) []Failure {
	e := &j.g.EndPorts[owner]
	dst := e.Switch
	at := make([]int32, j.n) // where packets from a switch end
	pairs := make([]int64, j.n)
	for s := range at {
		at[s] = -1
	}
	for _, u := range w.order {
		at[u] = u
		if c := w.ch[u]; c >= 0 {
			at[u] = at[j.to[c]]
		}
	}
	for s := range j.n {
		if j.comp[s] != j.comp[dst] || w.depth[s] > 0 {
			continue
		}
		k := j.lidsAt[s]
		if int32(s) == dst {
			k -= j.lidsOf[owner]
		}
		w.part.unreachable += k
		if at[s] < 0 {
			j.loopHeads(w, at, int32(s))
		}
		pairs[at[s]] += k
	}
	for s, k := range pairs {
		if len(fails) >= j.keep {
			break
		}
		if k == 0 {
			continue
		}
		fails = append(fails, j.failure(w, l, int32(s), entries[s], k))
	}
	return fails
}

// failure describes packets that the entry of switch s drops, misdelivers or
// sends back.
func (j *verifier) failure(w *scratch, l ib.LID, s int32, entry byte, pairs int64) Failure {
	f := Failure{Kind: DeadEnd, LID: l, Switch: s, Entry: entry, Pairs: pairs}
	switch {
	case w.depth[s] == looping:
		f.Kind = Loop
	case j.leadsToEndPort(s, entry):
		f.Kind = WrongPort
	}
	return f
}

// loopHeads sets at, for s and all it leads to, to the lowest switch of the
// loop there.
func (j *verifier) loopHeads(w *scratch, at []int32, s int32) {
	const here = -2
	u := s
	for at[u] == -1 {
		at[u] = here
		u = j.to[w.ch[u]]
	}
	head := at[u]
	if head == here { // a loop not met before, and u is on it
		head = j.loopHead(w, u)
	}
	for u = s; at[u] == here; u = j.to[w.ch[u]] {
		at[u] = head
	}
}

func (j *verifier) leadsToEndPort(s int32, port byte) bool {
	for i := range j.g.EndPorts {
		if e := &j.g.EndPorts[i]; e.Switch == s && e.Port == port {
			return true
		}
	}
	return false
}

// slow verifies a LID by walking the path of every source: some of its packets
// are on a lane that a link does not have.
func (j *verifier) slow(w *scratch, fails []Failure, l ib.LID, owner int32, entries []byte) []Failure {
	dst := &j.g.EndPorts[owner]
	isCA := dst.Type != ib.NodeSwitch
	lost, refused := make([]int64, j.n), make([]int64, j.n)
	var p laneWalk
	for e := range j.g.EndPorts {
		src := &j.g.EndPorts[e]
		if int32(e) == owner || src.Switch < 0 || j.lidsOf[e] == 0 {
			continue
		}
		j.walkLanes(w, &p, src, dst, l, entries)
		switch {
		case p.end == delivered:
			if isCA || src.Type != ib.NodeSwitch {
				w.used |= p.used
			}
			if isCA && src.Type != ib.NodeSwitch {
				w.countPath(p.path)
			}
			continue
		case j.comp[src.Switch] != j.comp[dst.Switch]:
			continue
		case p.end == noLane:
			refused[p.at] += j.lidsOf[e]
		case len(p.path) > j.n: // a loop
			lost[j.loopHead(w, p.at)] += j.lidsOf[e]
		default:
			lost[p.at] += j.lidsOf[e]
		}
		w.part.unreachable += j.lidsOf[e]
	}
	for s := range j.n {
		if lost[s] > 0 && len(fails) < j.keep {
			fails = append(fails, j.failure(w, l, int32(s), entries[s], lost[s]))
		}
		if refused[s] > 0 && len(fails) < j.keep {
			fails = append(fails, Failure{Kind: BadLane, LID: l, Switch: int32(s), Entry: entries[s], Pairs: refused[s]})
		}
	}
	return fails
}

// laneWalk is the path of one source's packets to one LID, with their lanes.
type laneWalk struct {
	path []int32 // channels in their order
	at   int32   // the switch where it ends
	end  laneEnd
	used uint32 // set of lanes on its links
}

// laneEnd is how a laneWalk ends.
type laneEnd uint8

const (
	dropped   laneEnd = iota // no entry, a wrong port, or a loop
	delivered                // at the end port that has the LID
	noLane                   // its lane does not exist on the next link
)

// walkLanes follows the packets from an end port to a LID of dst. It reuses p.path.
func (j *verifier) walkLanes(w *scratch, p *laneWalk, src, dst *fabric.EndPort, l ib.LID, entries []byte) {
	p.path, p.at, p.end, p.used = p.path[:0], src.Switch, dropped, 0
	in := src.Port
	sl := j.level(p.at, int(l))
	for range j.n + 1 {
		if p.at == dst.Switch {
			if entries[p.at] != dst.Port {
				return
			}
			p.end = delivered
			if exits := j.exitsOf(p.at, in, dst.Port); exits != nil && exits[sl] >= 15 {
				p.end = noLane
			}
			return
		}
		c := w.ch[p.at]
		if c < 0 {
			return
		}
		lane, has := j.lane(p.at, in, c, sl)
		if !has {
			p.end = noLane
			return
		}
		p.used |= 1 << lane
		p.path = append(p.path, c)
		p.at, in = j.to[c], j.g.Channels[c].InPort
	}
}

// countPath adds a path between CAs to the sums.
func (w *scratch) countPath(path []int32) {
	w.part.paths++
	w.part.hops += int64(len(path))
	w.part.maxHops = max(w.part.maxHops, int32(len(path)))
	for _, c := range path {
		w.load[c]++
	}
}

// loopHead is the lowest switch of the loop that switch s is on.
func (j *verifier) loopHead(w *scratch, s int32) int32 {
	head := s
	for u := j.to[w.ch[s]]; u != s; u = j.to[w.ch[u]] {
		head = min(head, u)
	}
	return head
}
