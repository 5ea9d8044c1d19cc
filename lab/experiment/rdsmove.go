package experiment

import (
	"fmt"
	"slices"
	"time"

	"heddle/agent"
	"heddle/fabric"
	"heddle/ib"
	"heddle/mad"
	"heddle/sim"
	"heddle/sim/host/comm"
	"heddle/sim/host/rds"
	"heddle/sm"
	"heddle/subnet"
)

// Instants of a migration in Figures 5 to 7 of the paper: the ends connect at rdsBegin;
// backTime after the detach is called the VM has its device again, and attachTime before
// that the migration is complete.
const (
	rdsBegin   = 4 * time.Second
	backTime   = 26 * time.Second // 13 s to 39 s
	attachTime = time.Second
)

// instants are those of a migration, from the call of the detach.
type instants struct {
	detached time.Duration // the function is gone
	back     time.Duration // the VM has its device again
}

// rdsFigure is a figure of the paper: how a VM migrates.
type rdsFigure struct {
	name    string
	text    string
	keep    bool // the VM keeps its LID and GUID
	caching rdsCaching
	detach  time.Duration // when the detach is called
	instants
	end time.Duration
}

var rdsFigures = []rdsFigure{
	{
		name: "5", text: "The VM gets another LID and GUID, and nobody caches. The client's last request goes to the old " +
			"address; until its time-out the client refuses all of the server's.",
		detach: 13 * time.Second, instants: instants{300 * time.Millisecond, backTime}, end: 120 * time.Second,
	},
	{
		name: "6", text: "The VM keeps its floating LID and its GUID, and nobody caches. The repetition of the client's " +
			"request finds the server at its new place.",
		keep: true, detach: 20 * time.Second, instants: instants{1500 * time.Millisecond, backTime}, end: 60 * time.Second,
	},
	{
		name: "7", text: "As Figure 6, with caches by Algorithm 2 as printed, which the SA permits by the reserved field at " +
			"bit offset 353: an entry is used as long as the host runs, right or wrong.",
		keep: true, caching: asPrinted, detach: 20 * time.Second,
		instants: instants{1500 * time.Millisecond, backTime}, end: 60 * time.Second,
	},
	{
		name: "7 with heddle agent", text: "As Figure 7, with the caches of heddle agent as it is. Entries leave when the " +
			"SA tells of a change, when their port is lost, and by age; so an end may ask again after the VM's return.",
		keep: true, caching: heddleAgent, detach: 20 * time.Second,
		instants: instants{1500 * time.Millisecond, backTime}, end: 60 * time.Second,
	},
}

// rdsRun is a run of a figure. Times are from its beginning.
type rdsRun struct {
	client, server rdsEnd

	up       time.Duration // connected for the first time
	lost     time.Duration // connection lost
	restored time.Duration // connected again; 0: not within the run
	placed   time.Duration // the manager has the VM at its new place
}

// rdsEnd is what an end did.
type rdsEnd struct {
	queries, saved []time.Duration
	// tries are those of the automaton for which it had an address, hits what the cache counted.
	tries, hits int
}

// between counts the times in [from, to).
func between(list []time.Duration, from, to time.Duration) (n int) {
	for _, t := range list {
		if t >= from && t < to {
			n++
		}
	}
	return n
}

// vmBed is an rdsBed with a VM that migrates between the last two hosts.
type vmBed struct {
	*rdsBed
	hosts  []string
	server *rdsNode
	keep   bool
	guid   ib.GUID
}

const rdsVM = "server"

// newVMBed brings up f with a VM on its last host but one. With keep it has a floating LID,
// as LIDtracker gives it; otherwise the LID of its host.
func newVMBed(f *fabric.Fabric, cfg rdsConfig, seed uint64, keep bool) (*vmBed, error) {
	hosts := rdsHosts(f)
	last := len(hosts)
	b, err := newRDSBed(f, cfg, seed, hosts[last-2:]...)
	if err != nil {
		return nil, err
	}
	v := &vmBed{rdsBed: b, hosts: hosts, keep: keep, guid: 0x0200_0000_0000_1000}
	if err := v.place(last - 2); err != nil {
		return nil, err
	}
	v.server, err = b.newNode("", rdsVM, cfg.caching != noCaching)
	return v, err
}

// place starts the VM on a host, or lets it go on there, and has the manager put its
// address there.
func (v *vmBed) place(host int) error {
	at, err := v.c.Sim.VF(v.hosts[host], 1, 1)
	if err != nil {
		return err
	}
	if err := v.c.Sim.PlaceVM(rdsVM, at, sim.VMOptions{GUID: v.guid}); err != nil {
		return err
	}
	kind := subnet.SharedLID
	if v.keep {
		kind = subnet.FloatingLID
	}
	port := v.c.Fabric.Nodes[at.Node].Ports[1].GUID
	p := subnet.Placement{GUID: v.guid, Place: subnet.Place{Port: port, Function: 1}, LIDKind: kind}
	seen := len(v.m.Placements)
	v.m.SetPlacements(sm.SetPlacements{Put: []subnet.Placement{p}, All: true})
	err = v.c.RunUntil(settle, func() bool {
		for ; seen < len(v.m.Placements); seen++ {
			if r := v.m.Placements[seen]; r.GUID == p.GUID && r.Place == p.Place && r.State == subnet.PlacementPlaced {
				return true
			}
		}
		return false
	})
	if err != nil {
		return fmt.Errorf("the VM is not placed at %s: %w", v.hosts[host], err)
	}
	return nil
}

// migrate runs the migration whose detach is called now, until the VM has its device again.
// placed is when the manager has moved its address.
func (v *vmBed) migrate(i instants) (placed mad.Time, err error) {
	call := v.now()
	v.server.remove()
	v.c.Sim.RunUntil(call.Add(i.detached))
	v.server.removed()
	if err := v.c.Sim.DetachVM(rdsVM); err != nil {
		return 0, err
	}
	v.c.Sim.RunUntil(call.Add(i.back - attachTime))
	if !v.keep {
		v.guid += 0x100
	}
	if err := v.place(len(v.hosts) - 1); err != nil {
		return 0, err
	}
	placed = v.now()
	v.c.Sim.RunUntil(call.Add(i.back))
	v.server.attach()
	return placed, nil
}

// nineHosts are three leaves with three hosts each: the paper's nine servers.
func nineHosts() (*fabric.Fabric, error) {
	return fabric.Generate(fabric.XGFT{Children: []int{3, 3}, Parents: []int{1, 3}}, fabric.GenerateOptions{})
}

// run runs a figure once.
func (f *rdsFigure) run(cfg rdsConfig, seed uint64) (*rdsRun, error) {
	net, err := nineHosts()
	if err != nil {
		return nil, err
	}
	cfg.caching = f.caching
	v, err := newVMBed(net, cfg, seed, f.keep)
	if err != nil {
		return nil, err
	}
	client, err := v.newNode(v.hosts[1], "", f.caching != noCaching)
	if err != nil {
		return nil, err
	}
	zero := v.now()
	v.c.Run(rdsBegin)
	client.start(v.server)
	v.server.start(client)
	v.c.Sim.RunUntil(zero.Add(f.detach))
	if !linked(client, v.server) {
		return nil, fmt.Errorf("figure %s, seed %d: no connection after %v", f.name, seed, f.detach)
	}
	placed, err := v.migrate(f.instants)
	if err != nil {
		return nil, err
	}
	v.c.Sim.RunUntil(zero.Add(f.end))
	r := &rdsRun{placed: placed.Sub(zero)}
	since := func(list []mad.Time) (out []time.Duration) {
		for _, t := range list {
			out = append(out, t.Sub(zero))
		}
		return out
	}
	mine, theirs := client.link(v.server), v.server.link(client)
	end := func(n *rdsNode, l *rdsLink) rdsEnd {
		e := rdsEnd{queries: since(n.queries), saved: since(n.saved), tries: l.conn.Tries - n.away}
		if n.cache != nil {
			e.hits = int(n.cache.Stats().Answers[agent.Found][agent.FromCache])
		}
		return e
	}
	r.client, r.server = end(client, mine), end(v.server, theirs)
	both := func(k int) time.Duration { return max(mine.ups[k], theirs.ups[k]).Sub(zero) }
	r.up, r.lost = both(0), mine.downs[0].Sub(zero)
	if linked(client, v.server) {
		if len(mine.ups) != 2 || len(theirs.ups) != 2 {
			return nil, fmt.Errorf("figure %s, seed %d: connected %d and %d times", f.name, seed, len(mine.ups), len(theirs.ups))
		}
		r.restored = both(1)
	}
	return r, nil
}

// returned is when the VM has its device again.
func (f *rdsFigure) returned() time.Duration { return f.detach + f.back }

// burst counts the client's queries, and those that it saved, from the detach until the
// function is gone and its request stays unanswered.
func (f *rdsFigure) burst(r *rdsRun) int {
	n := between(r.client.queries, f.detach, f.returned())
	return n + between(r.client.saved, f.detach, f.returned())
}

// late counts the server's queries from the time that it has its device again.
func (f *rdsFigure) late(r *rdsRun) int { return between(r.server.queries, f.returned(), f.end) }

// attempts counts the tries of an end.
func attempts(queries, saved []time.Duration) int { return len(queries) + len(saved) }

// column is a figure of all runs.
func column(runs []*rdsRun, figure func(*rdsRun) float64) spread {
	var all []float64
	for _, r := range runs {
		all = append(all, figure(r))
	}
	slices.Sort(all)
	return spread{all[len(all)/2], all[0], all[len(all)-1]}
}

// rdsDefaults are hosts as Linux has them, and the paper's SA.
func rdsDefaults() rdsConfig {
	c := rds.Defaults()
	c.Setup, c.Teardown = 2*time.Millisecond, 12*time.Millisecond
	k := comm.Defaults()
	k.Rounded = true
	return rdsConfig{rds: c, comm: k, answer: 152 * time.Microsecond, mad: mad.Config{Timeout: time.Second, Retries: 3}}
}
