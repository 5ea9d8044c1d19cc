package check

import (
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
		head = u
		for v := j.to[w.ch[u]]; v != u; v = j.to[w.ch[v]] {
			head = min(head, v)
		}
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
	var path []int32
	for e := range j.g.EndPorts {
		src := &j.g.EndPorts[e]
		if int32(e) == owner || src.Switch < 0 || j.lidsOf[e] == 0 {
			continue
		}
		path = path[:0]
		at, in := src.Switch, src.Port
		sl := j.level(at, int(l))
		used, ok, bad := uint32(0), false, false
		for range j.n + 1 {
			if at == dst.Switch {
				ok = entries[at] == dst.Port
				if exits := j.exitsOf(at, in, dst.Port); ok && exits != nil && exits[sl] >= 15 {
					ok, bad = false, true
				}
				break
			}
			c := w.ch[at]
			if c < 0 {
				break
			}
			lane, has := j.lane(at, in, c, sl)
			if !has {
				bad = true
				break
			}
			used |= 1 << lane
			path = append(path, c)
			at, in = j.to[c], j.g.Channels[c].InPort
		}
		switch {
		case ok:
			if isCA || src.Type != ib.NodeSwitch {
				w.used |= used
			}
			if isCA && src.Type != ib.NodeSwitch {
				w.part.paths++
				w.part.hops += int64(len(path))
				w.part.maxHops = max(w.part.maxHops, int32(len(path)))
				for _, c := range path {
					w.load[c]++
				}
			}
			continue
		case j.comp[src.Switch] != j.comp[dst.Switch]:
			continue
		case bad:
			refused[at] += j.lidsOf[e]
		default:
			if len(path) > j.n { // going round: name the loop's lowest switch
				head := at
				for u := j.to[w.ch[at]]; u != at; u = j.to[w.ch[u]] {
					head = min(head, u)
				}
				at = head
			}
			lost[at] += j.lidsOf[e]
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
