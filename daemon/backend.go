package daemon

import (
	"fmt"
	"io"
	"strings"
	"time"

	"heddle/api"
	"heddle/api/show"
	"heddle/fabric/cabling"
	"heddle/fabric/slurm"
	"heddle/mad"
	"heddle/sm"
	"heddle/store/backup"
	"heddle/vm"
)

// askTime is how long a reader waits for the loop before it uses the last published status.
const askTime = 200 * time.Millisecond

// fresh returns the core's status: a new one from the loop, or the last published one.
func (d *Daemon) fresh() sm.Status {
	reply := make(chan sm.Status, 1)
	t := time.NewTimer(askTime)
	defer t.Stop()
	select {
	case d.ask <- reply:
		st := <-reply
		return st
	case <-t.C:
	}
	if st := d.status.Load(); st != nil {
		return *st
	}
	return sm.Status{}
}

// state is the published state of the manager.
func (d *Daemon) state() *show.State {
	x := &show.State{
		SM: d.fresh(), Snap: d.Snapshot(), View: d.View(), VMs: d.Interfaces(), Port: d.cfg.PortName, Started: d.clock.started,
	}
	if t := d.upAt.Load(); t != 0 {
		x.Up = time.Unix(0, t)
	}
	if u := d.unsaved.Load(); u != nil {
		x.Unsaved, x.UnsavedErr = u.n, u.err
	}
	return x
}

// Status implements api.Backend, as do the methods below.
func (d *Daemon) Status() api.Status {
	x := d.state()
	out := show.Status(x)
	if w := x.SM.WaitsUntil; w != mad.Never {
		out.WaitSeconds = max(w.Sub(d.now()), 0).Seconds()
	}
	out.Gone = api.Gone(d.history.gone())
	d.sa.addTo(&out.SA)
	return out
}

// Backup implements api.Backend.
func (d *Daemon) Backup(w io.Writer) error { return backup.WriteStore(w, d.cfg.Store) }

func (d *Daemon) Ready() (bool, string) { return show.Ready(d.state()) }

func (d *Daemon) Events(after uint64) ([]api.Event, <-chan struct{}) { return d.events.Since(after) }

func (d *Daemon) FindEvents(q api.EventsQuery) ([]api.Event, error) { return d.events.Find(q) }

func (d *Daemon) Nodes() []api.Node { return show.Nodes(d.Snapshot()) }

func (d *Daemon) Links() []api.Link { return show.Links(d.Snapshot()) }

func (d *Daemon) Slurm(o slurm.Options) (*slurm.Topology, uint64, error) {
	o.Names = d.cfg.Core.Names // others than those of the map are named by their GUID
	return show.Slurm(d.Snapshot(), o)
}

func (d *Daemon) Netlist() (func(io.Writer) error, uint64, error) {
	s := d.Snapshot()
	if s == nil {
		return show.Netlist(nil, time.Time{})
	}
	return show.Netlist(s, d.dates.of(s.Gen, time.Now()))
}

// CheckCabling implements api.Backend.
func (d *Daemon) CheckCabling(name, plan string, partial bool) (api.Cabling, error) {
	if name == "" {
		name = "plan"
	}
	p, err := cabling.Read(strings.NewReader(plan), name)
	if err != nil {
		return api.Cabling{}, err
	}
	return show.CheckCabling(p, d.Snapshot(), d.cfg.Core.Names, partial)
}

func (d *Daemon) Rails() api.Rails { return show.Rails(d.Snapshot()) }

// NodeTable, PortTable, CableTable, Node, Port and Search implement api.Tables.
func (d *Daemon) NodeTable(q api.TableQuery) (api.Table[api.Node], error) {
	return d.page.Nodes(d.Snapshot(), q)
}

func (d *Daemon) PortTable(q api.TableQuery) (api.Table[api.PortRow], error) {
	return d.page.Ports(d.Snapshot(), q)
}

func (d *Daemon) CableTable(q api.TableQuery) (api.Table[api.Link], error) {
	return d.page.Cables(d.Snapshot(), q)
}

func (d *Daemon) Node(guid string) (api.NodeDetail, bool) {
	return d.page.NodeDetail(d.Snapshot(), guid)
}

func (d *Daemon) Port(guid string, num int) (api.PortDetail, bool) {
	return show.PortDetail(d.Snapshot(), guid, num)
}

func (d *Daemon) Search(text string, limit int) ([]api.Hit, bool) {
	return show.Search(d.Snapshot(), text, limit)
}

func (d *Daemon) Drawing() api.Drawing { return d.page.Draw(d.Snapshot()) }

func (d *Daemon) Use() api.Use { return show.Use(d.Snapshot(), d.cfg.Meter) }

func (d *Daemon) Repairs() []api.Repair { return d.repairs.List() }

func (d *Daemon) Sweeps() []api.Sweep { return d.sweeps.List() }

func (d *Daemon) Groups() []api.Group { return show.Groups(d.View()) }

func (d *Daemon) Services() []api.Service { return show.Services(d.View()) }

func (d *Daemon) Subscriptions() []api.Subscription { return show.Subscriptions(d.View()) }

func (d *Daemon) SAKey() api.SAKey { return show.SAKey(d.cfg.SA) }

func (d *Daemon) Path(from, to string) (api.Path, error) {
	return show.Path(d.Snapshot(), d.Interfaces(), from, to)
}

func (d *Daemon) PartitionReady(pkey string) (api.PartitionReady, error) {
	key, err := show.PKey(pkey)
	if err != nil {
		return api.PartitionReady{}, err
	}
	if err := d.master(); err != nil {
		return api.PartitionReady{}, err
	}
	return show.PartitionReady(d.Snapshot(), d.Interfaces(), key)
}

func (d *Daemon) Master() error { return d.master() }

func (d *Daemon) VMs(f api.VMFilter) (api.VMList, error) {
	return show.VMs(d.Snapshot(), d.Interfaces(), f)
}

func (d *Daemon) VM(name string) (api.VM, error) {
	x, ok := show.Interface(d.Interfaces(), name)
	if !ok {
		return api.VM{}, fmt.Errorf("%w: %q", vm.ErrNotFound, name)
	}
	v := show.VM(d.Snapshot(), x)
	v.Migration = d.migrations.of(name)
	return v, nil
}

func (d *Daemon) Pools() api.VMPools { return show.Pools(d.Interfaces()) }

func (d *Daemon) Hypervisors() []api.Hypervisor {
	return show.Hypervisors(d.Snapshot(), d.Interfaces())
}

func (d *Daemon) VPorts() []api.VPort { return show.VPorts(d.Snapshot()) }
