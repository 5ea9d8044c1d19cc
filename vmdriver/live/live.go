// Package live runs a driver of hypervisors (package vmdriver) in real time, against the
// HTTP API of a manager: it waits for changes of interfaces with GET /v1/vms:changes,
// reads them, and makes the requests that the driver wants.
package live

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"heddle/mad"
	"heddle/vmdriver"
)

// Hypervisors carry orders out.
type Hypervisors interface {
	// Begin returns what they have, and calls tell with every change after it. tell may be
	// called from any goroutine, does not block, and keeps the order of calls.
	Begin(tell func(vmdriver.Event)) vmdriver.Inventory
	// Do begins to carry out an order, which is answered by tell.
	Do(o vmdriver.Order)
}

// Config of a driver.
type Config struct {
	// Manager finds the manager. It is asked at first, and again whenever a request was not
	// answered or not permitted: the manager may have started again elsewhere.
	Manager     func() (Manager, error)
	Hypervisors Hypervisors
	Core        vmdriver.Config
	Name        string // of this driver, shown with its migrations
	Log         *slog.Logger
}

// maxCalls bounds the requests under way.
const maxCalls = 64

// driver is the goroutine that owns the core, and what others tell it.
type driver struct {
	cfg    Config
	client client
	core   *vmdriver.Core
	epoch  time.Time
	slots  chan struct{}
	calls  sync.WaitGroup

	mu   sync.Mutex
	mail []vmdriver.Event // guarded by mu
	bell chan struct{}
}

// Run drives hypervisors until ctx ends.
func Run(ctx context.Context, cfg Config) {
	d := &driver{
		cfg: cfg, core: vmdriver.New(cfg.Core), epoch: time.Now(), slots: make(chan struct{}, maxCalls), bell: make(chan struct{}, 1),
		client: client{find: cfg.Manager, name: cfg.Name},
	}
	first := d.cfg.Hypervisors.Begin(d.tell)
	var watching sync.WaitGroup
	watching.Go(func() { d.watch(ctx) })
	d.loop(ctx, first)
	watching.Wait()
	d.calls.Wait()
}

// tell puts an event into the mail.
func (d *driver) tell(e vmdriver.Event) {
	d.mu.Lock()
	d.mail = append(d.mail, e)
	d.mu.Unlock()
	select {
	case d.bell <- struct{}{}:
	default:
	}
}

func (d *driver) loop(ctx context.Context, first vmdriver.Event) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var out vmdriver.Output
	step := func(e vmdriver.Event) {
		now := mad.Time(time.Since(d.epoch))
		d.core.Step(now, e, &out)
		for _, c := range out.Calls {
			d.call(ctx, c)
		}
		for _, o := range out.Orders {
			d.cfg.Log.Debug("order", "order", o.Kind.String(), "vm", o.Name)
			d.cfg.Hypervisors.Do(o)
		}
		wait := time.Hour
		if out.Timer != mad.Never {
			wait = max(0, out.Timer.Sub(now))
		}
		timer.Reset(wait)
	}
	step(first)
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			step(vmdriver.Timer{})
		case <-d.bell:
			d.mu.Lock()
			list := d.mail
			d.mail = nil
			d.mu.Unlock()
			for _, e := range list {
				step(e)
			}
		}
	}
}

// call makes a request in the background.
func (d *driver) call(ctx context.Context, c vmdriver.Call) {
	d.calls.Go(func() {
		select {
		case d.slots <- struct{}{}:
			defer func() { <-d.slots }()
		case <-ctx.Done():
			return
		}
		a := d.client.perform(ctx, c)
		if a.Result != vmdriver.Done {
			d.cfg.Log.Debug("request", "request", c.Verb.String(), "vm", c.Name, "result", a.Result, "reason", a.Reason)
		}
		if c.Ends {
			p := &c.Progress
			to := fmt.Sprintf("%v/%d", p.To.Port, p.To.Function)
			d.cfg.Log.Info("migration "+string(p.Stage), "vm", c.Name, "to", to, "outage", p.Copy.Outage, "reason", p.Reason)
		}
		d.tell(a)
	})
}

// pauses between attempts to reach the manager.
const (
	minPause = 100 * time.Millisecond
	maxPause = 2 * time.Second
)

// watch waits for changes of interfaces, and passes them on.
func (d *driver) watch(ctx context.Context) {
	since, pause, lost := "", minPause, true
	for ctx.Err() == nil {
		c, err := d.client.changes(ctx, since)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			if !lost || pause == maxPause/2 {
				d.cfg.Log.Warn("the manager does not answer; VMs stay where they are", "err", err)
			}
			lost = true
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
			pause = min(2*pause, maxPause)
			continue
		}
		if lost {
			d.cfg.Log.Info("connected to the manager")
		}
		since, pause, lost = c.Since, minPause, false
		if c.Reset {
			d.tell(vmdriver.Connected{})
		}
		for _, x := range c.Changes {
			d.tell(vmdriver.Changed{Name: x.Name, Deleted: x.Deleted})
		}
	}
}
