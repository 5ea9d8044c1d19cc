package fabric

import (
	"cmp"
	"slices"
	"strconv"
)

// Irregular is one of the random networks of Bermúdez et al. (2003), §3.1:
// switches of four ports, joined at random so that all hang together, no
// switch with itself and no two by more than one cable, and a host on each
// switch that has a port left. About 3/2 links a switch leave roughly two
// switches in three with a host, as in their Figure 5.
type Irregular struct {
	Switches int
	Ports    int // of each switch; 0 means 4
	Hosts    int // at most so many on each switch
	Links    int // between switches; 0 means about 3/2 of the switches
	Seed     uint64
}

// Kind is "irregular".
func (Irregular) Kind() string { return "irregular" }

func (t Irregular) generate(g *generator) error {
	g.rng = splitMix(t.Seed)
	n, hosts, links := t.Switches, t.Hosts, t.Links
	ports := cmp.Or(t.Ports, 4)
	if err := cmp.Or(
		g.within("Switches", 1, maxGenNodes, n), g.within("Ports", 2, MaxPorts, ports), g.within("Hosts", 0, MaxPorts, hosts),
		g.within("Links", 0, maxGenPorts, links),
	); err != nil {
		return err
	}
	most := min(n*ports/2, n*(n-1)/2)
	if links == 0 {
		links = min(n*3/2, most)
	}
	switch {
	case n > 1<<12 || n*links > 1<<26: // the time to join them grows as n·links
		return g.fail("", "%d switches with %d links are more than is made at random: at most %d switches, fewer with more than %d links", n, links, 1<<12, 1<<14)
	case links < n-1:
		return g.fail("", "%d links cannot connect %d switches; at least %d are needed", links, n, n-1)
	case links > most:
		return g.fail("", "%d links; %d switches of %d ports have room for %d", links, n, ports, most)
	}
	if err := g.size(mul(n, hosts), n, ports); err != nil {
		return err
	}
	net := g.randomNet(n, ports, links)
	// Hosts are numbered by switch; how many there are is known only now.
	count := 0
	for _, peers := range net {
		count += min(hosts, ports-len(peers))
	}
	g.addHosts(count, 1)
	first := g.b.Len()
	for i := range n {
		g.b.AddSwitch("sw-"+strconv.Itoa(i+1), ports)
	}
	host := 0
	used := make([]int, n)
	for i, peers := range net {
		for _, j := range peers {
			if j > i {
				used[i]++
				used[j]++
				g.b.Connect(first+i, used[i], first+j, used[j])
			}
		}
	}
	for i := range n {
		k := min(hosts, ports-used[i])
		g.join(host, k, first+i, used[i]+1)
		host += k
	}
	return nil
}

// randomNet gives the neighbours of every switch: a random tree, then random
// further links. Where chance has left only switches whose free ports cannot
// be joined with one another, there are fewer links than asked for.
func (g *generator) randomNet(n, ports, links int) [][]int {
	net := make([][]int, n)
	join := func(a, b int) {
		net[a] = append(net[a], b)
		net[b] = append(net[b], a)
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	for i := n - 1; i > 0; i-- {
		j := g.rng.intn(i + 1)
		order[i], order[j] = order[j], order[i]
	}
	free := make([]int, 0, n) // switches of the tree with a port left
	for i, s := range order {
		if i > 0 {
			k := g.rng.intn(len(free))
			t := free[k]
			join(s, t)
			if len(net[t]) == ports {
				free[k] = free[len(free)-1]
				free = free[:len(free)-1]
			}
		}
		if len(net[s]) < ports {
			free = append(free, s)
		}
	}
	made := n - 1
	for made < links && len(free) > 1 {
		k := g.rng.intn(len(free))
		s := free[k]
		var can []int
		for _, t := range free {
			if t != s && !slices.Contains(net[s], t) {
				can = append(can, t)
			}
		}
		if len(can) == 0 {
			free[k] = free[len(free)-1]
			free = free[:len(free)-1]
			continue
		}
		join(s, can[g.rng.intn(len(can))])
		made++
		kept := free[:0]
		for _, t := range free {
			if len(net[t]) < ports {
				kept = append(kept, t)
			}
		}
		free = kept
	}
	return net
}
