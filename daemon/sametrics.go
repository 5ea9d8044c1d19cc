package daemon

import (
	"github.com/prometheus/client_golang/prometheus"
)

// saCollector shows what the SA counts; the names are in docs/metrics.md.
type saCollector struct {
	d *Daemon

	requests, answers, busy, dropped, unsent, returned *prometheus.Desc
	took, batches, persist                             *prometheus.Desc
	waiting, requesters                                *prometheus.Desc
	reports, reportsBack, lost, noticesCut, unsaved    *prometheus.Desc
	transfers                                          *prometheus.Desc
	groups, members, services, subscriptions           *prometheus.Desc
}

func newSACollector(d *Daemon, desc func(name, help string, labels ...string) *prometheus.Desc) *saCollector {
	return &saCollector{
		d:             d,
		requests:      desc("sa_requests_total", "SA requests received.", "attribute", "method"),
		answers:       desc("sa_answers_total", "SA requests worked on and answered, errors included, BUSY not.", "attribute"),
		busy:          desc("sa_busy_total", "SA requests answered BUSY.", "reason"),
		dropped:       desc("sa_dropped_total", "SA requests that must not be answered: a wrong SM_Key, a stranger, no master."),
		unsent:        desc("sa_unsent_total", "SA answers and Reports that the port did not take."),
		returned:      desc("sa_returned_total", "SA answers that came back undelivered."),
		took:          desc("sa_answer_seconds", "Seconds from the arrival of an SA request to its answer.", "attribute"),
		batches:       desc("sa_batch_requests", "Requests that change something in one step of the SA."),
		persist:       desc("sa_persist_seconds", "Seconds to store the changes of one step of the SA."),
		waiting:       desc("sa_queue_requests", "SA requests that wait.", "queue"),
		requesters:    desc("sa_queue_requesters", "LIDs that have SA requests waiting.", "queue"),
		reports:       desc("sa_reports_total", "Reports sent to subscribers, repetitions included."),
		reportsBack:   desc("sa_reports_returned_total", "Reports that came back undelivered."),
		lost:          desc("sa_lost_total", "What the SA's loop had no room for.", "what"),
		unsaved:       desc("sa_unsaved_changes", "Changes that were acknowledged and wait for a store that cannot be written."),
		noticesCut:    desc("sa_notices_cut_total", "Notices of the SA that were not told because there were too many."),
		transfers:     desc("sa_rmpp_transfers", "RMPP transfers under way, where the port itself segments.", "direction"),
		groups:        desc("sa_groups", "Multicast groups."),
		members:       desc("sa_group_members", "Ports in multicast groups."),
		services:      desc("sa_services", "Services registered."),
		subscriptions: desc("sa_subscriptions", "Subscriptions to events."),
	}
}

// transferCounter is a port that segments by itself.
type transferCounter interface {
	Transfers() (sending, receiving int)
}

func (c *saCollector) collect(ch chan<- prometheus.Metric,
	gauge func(*prometheus.Desc, float64, ...string), count func(*prometheus.Desc, uint64, ...string),
) {
	s := &c.d.sa
	for a := range s.requests {
		for m := range s.requests[a] {
			if n := s.requests[a][m].Load(); n > 0 {
				count(c.requests, n, attrSlotName(a), methodSlotName(m))
			}
		}
	}
	var took [attrSlots]buckets
	var busy [busyReasons]uint64
	var dropped, unsent uint64
	s.each(func(w *answerStats) {
		for a := range w.took {
			took[a].add(&w.took[a])
		}
		for r := range w.busy {
			busy[r] += w.busy[r].Load()
		}
		dropped += w.dropped.Load()
		unsent += w.unsent.Load()
	})
	for a := range took {
		if took[a].count > 0 {
			count(c.answers, took[a].count, attrSlotName(a))
			ch <- took[a].seconds(c.took, attrSlotName(a))
		}
	}
	for r, n := range busy {
		count(c.busy, n, busyNames[r])
	}
	count(c.dropped, dropped)
	count(c.unsent, unsent)
	count(c.returned, s.returned.Load())
	var batches, persist buckets
	batches.add(&s.batches)
	persist.add(&s.persist)
	ch <- batches.numbers(c.batches)
	ch <- persist.seconds(c.persist)
	for _, q := range []struct {
		q    *queue
		name string
	}{{c.d.queries, "queries"}, {c.d.tables, "tables"}, {c.d.changes, "changes"}} {
		requests, requesters := q.q.load()
		gauge(c.waiting, float64(requests), q.name)
		gauge(c.requesters, float64(requesters), q.name)
	}
	count(c.reports, s.reports.Load())
	count(c.reportsBack, s.reportsBack.Load())
	count(c.lost, s.lostTraps.Load(), "trap")
	count(c.lost, s.lostRep.Load(), "report_response")
	count(c.noticesCut, s.noticesCut.Load())
	waiting := 0
	if u := c.d.unsaved.Load(); u != nil {
		waiting = u.n
	}
	gauge(c.unsaved, float64(waiting))
	if t, ok := c.d.cfg.Port.(transferCounter); ok {
		sending, receiving := t.Transfers()
		gauge(c.transfers, float64(sending), "sending")
		gauge(c.transfers, float64(receiving), "receiving")
	}
	if v := c.d.View(); v != nil {
		members := 0
		for _, g := range v.Groups {
			members += len(g.Members)
		}
		gauge(c.groups, float64(len(v.Groups)))
		gauge(c.members, float64(members))
		gauge(c.services, float64(len(v.Services)))
		gauge(c.subscriptions, float64(len(v.Subs)))
	}
}

// buckets is the sum of histograms at one moment. The count is that of the
// buckets, so that it fits them while others go on counting.
type buckets struct {
	n     [histBuckets]uint64
	count uint64
	sum   uint64
}

func (b *buckets) add(h *histogram) {
	for i := range h.buckets {
		n := h.buckets[i].Load()
		b.n[i] += n
		b.count += n
	}
	b.sum += h.sum.Load()
}

// upTo is how many were counted up to each bound, which is unit times a power
// of two.
func (b *buckets) upTo(unit float64) map[float64]uint64 {
	m := make(map[float64]uint64, histBuckets-1)
	var n uint64
	for i := range histBuckets - 1 {
		n += b.n[i]
		m[unit*float64(uint64(1)<<i)] = n
	}
	return m
}

// seconds shows a histogram of microseconds.
func (b *buckets) seconds(d *prometheus.Desc, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstHistogram(d, b.count, float64(b.sum)*1e-9, b.upTo(1e-6), labels...)
}

// numbers shows a histogram of whole numbers. Bucket i holds those below 2^i,
// which are those up to 2^i-1.
func (b *buckets) numbers(d *prometheus.Desc) prometheus.Metric {
	m := make(map[float64]uint64, histBuckets-1)
	var n uint64
	for i := range histBuckets - 1 {
		n += b.n[i]
		m[float64(uint64(1)<<i-1)] = n
	}
	return prometheus.MustNewConstHistogram(d, b.count, float64(b.sum), m)
}
