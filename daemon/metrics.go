package daemon

import (
	"github.com/prometheus/client_golang/prometheus"

	"heddle/api/metrics"
)

// Metrics returns what /metrics shows.
func (d *Daemon) Metrics() prometheus.Gatherer { return metrics.New(d.values) }

// values are the values of the metrics.
func (d *Daemon) values() metrics.Values {
	return metrics.Values{
		SM: d.fresh(), Snap: d.Snapshot(), View: d.View(), VMs: d.Interfaces(), Sweeps: d.sweeps.Take(),
		SMPsCut: d.smpsCut.Load(), StoodIn: d.recv.standIn.Answered(), NoticesCut: d.noticesCut.Load(), Events: d.events.Count(),
		Repairs: d.repairs.Values(d.cfg.Core.Transition.String()), SA: d.saValues(), VM: d.vm.stats.values(), Perf: d.perfValues(),
		Findings:   d.findingValues(),
		Cabling:    d.cables(),
		Ports:      d.portValues(),
		HotSpots:   d.hotSpotValues(),
		Congestion: d.congestionValues(),
	}
}

// transferCounter is a port that segments RMPP messages itself.
type transferCounter interface {
	Transfers() (sending, receiving int)
}

func (d *Daemon) saValues() metrics.SA {
	out := d.sa.values()
	for _, q := range []struct {
		q    *queue
		name string
	}{{d.queries, "queries"}, {d.tables, "tables"}, {d.changes, "changes"}} {
		requests, requesters := q.q.load()
		out.Queues = append(out.Queues, metrics.Queue{Name: q.name, Requests: requests, Requesters: requesters})
	}
	if u := d.unsaved.Load(); u != nil {
		out.Unsaved = u.n
	}
	out.Signals = d.signalValues()
	if t, ok := d.cfg.Port.(transferCounter); ok {
		out.Segments = true
		out.Sending, out.Receiving = t.Transfers()
	}
	return out
}
