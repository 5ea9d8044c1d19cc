package metrics

import "github.com/prometheus/client_golang/prometheus"

// SA has the counters of the SA.
type SA struct {
	Requests []Count  // attribute, method
	Took     []Counts // by attribute: microseconds from arrival to answer
	Busy     []Count  // reason
	Dropped  uint64
	Unsent   uint64
	Returned uint64
	Batches  Counts // requests in one step
	Persist  Counts // microseconds
	Queues   []Queue
	Reports  uint64
	// ReportsBack counts Reports returned as undelivered.
	ReportsBack uint64
	Lost        []Count // what
	NoticesCut  uint64
	Unsaved     int
	// Sending and Receiving are RMPP transfers, with Segments: the port itself
	// segments.
	Segments           bool
	Sending, Receiving int
	Signals            Signals
}

// Signals has the counters of Reports about changed paths.
type Signals struct {
	Known                               bool // false: the SA did not answer in time
	Mode                                string
	Subscribers, Due, Levels            int
	Settled                             bool
	Changes, All, Paths, Failed, Spared uint64
}

// Queue is a queue of SA requests.
type Queue struct {
	Name                 string
	Requests, Requesters int // that wait
}

// saCollector presents the counters of the SA.
type saCollector struct {
	requests, answers, busy, dropped, unsent, returned *prometheus.Desc
	took, batches, persist                             *prometheus.Desc
	waiting, requesters                                *prometheus.Desc
	reports, reportsBack, lost, noticesCut, unsaved    *prometheus.Desc
	transfers                                          *prometheus.Desc
	groups, members, services, subscriptions           *prometheus.Desc
	pathChanges, pathReports, pathFailed, pathSpared   *prometheus.Desc
	pathSubscribers, pathDue, pathLevels               *prometheus.Desc
}

func newSACollector() *saCollector {
	desc := describe
	return &saCollector{
		requests:      desc("sa_requests_total", "SA requests received.", "attribute", "method"),
		answers:       desc("sa_answers_total", "SA requests worked on and answered, errors included, BUSY not.", "attribute"),
		busy:          desc("sa_busy_total", "SA requests answered BUSY.", "reason"),
		dropped:       desc("sa_dropped_total", "SA requests that must not be answered: a wrong SM_Key, a stranger, no master."),
		unsent:        desc("sa_unsent_total", "SA answers and Reports that the port did not take."),
		returned:      desc("sa_returned_total", "SA answers returned as undelivered."),
		took:          desc("sa_answer_seconds", "Seconds from the arrival of an SA request to its answer.", "attribute"),
		batches:       desc("sa_batch_requests", "Requests that change state in one step of the SA."),
		persist:       desc("sa_persist_seconds", "Seconds to store the changes of one step of the SA."),
		waiting:       desc("sa_queue_requests", "SA requests that wait.", "queue"),
		requesters:    desc("sa_queue_requesters", "LIDs that have SA requests waiting.", "queue"),
		reports:       desc("sa_reports_total", "Reports sent to subscribers, repetitions included."),
		reportsBack:   desc("sa_reports_returned_total", "Reports returned as undelivered."),
		lost:          desc("sa_lost_total", "Events dropped because the SA's queue was full.", "what"),
		unsaved:       desc("sa_unsaved_changes", "Changes that were acknowledged and wait for a store that cannot be written."),
		noticesCut:    desc("sa_notices_cut_total", "Notices of the SA that were suppressed because there were too many."),
		transfers:     desc("sa_rmpp_transfers", "RMPP transfers in progress, if the port itself segments.", "direction"),
		groups:        desc("sa_groups", "Multicast groups."),
		members:       desc("sa_group_members", "Ports in multicast groups."),
		services:      desc("sa_services", "Services registered."),
		subscriptions: desc("sa_subscriptions", "Subscriptions to events."),
		pathChanges:   desc("sa_path_changes_total", "Changes of paths that hosts can see."),
		pathReports:   desc("sa_path_reports_total", "Reports about changed paths, first tries.", "about"),
		pathFailed:    desc("sa_path_reports_failed_total", "Reports about changed paths that were not answered."),
		pathSpared:    desc("sa_path_spared_total", "Times that a subscriber held none of the changed paths."),

		pathSubscribers: desc("sa_path_subscribers", "Subscribers to traps 68 and 69.", "mode"),
		pathDue:         desc("sa_path_due", "Of them, those that have not acknowledged the newest paths."),
		pathLevels:      desc("sa_path_levels_due", "Of them, those that have to learn a service level."),
	}
}

func (c *saCollector) collect(to sink, x *Values) {
	s := &x.SA
	to.counts(c.requests, s.Requests)
	for i := range s.Took {
		t := &s.Took[i]
		to.count(c.answers, t.n(), t.Label)
		to <- t.seconds(c.took, t.Label)
	}
	to.counts(c.busy, s.Busy)
	to.count(c.dropped, s.Dropped)
	to.count(c.unsent, s.Unsent)
	to.count(c.returned, s.Returned)
	to <- s.Batches.numbers(c.batches)
	to <- s.Persist.seconds(c.persist)
	for _, q := range s.Queues {
		to.gauge(c.waiting, float64(q.Requests), q.Name)
		to.gauge(c.requesters, float64(q.Requesters), q.Name)
	}
	to.count(c.reports, s.Reports)
	to.count(c.reportsBack, s.ReportsBack)
	to.counts(c.lost, s.Lost)
	to.count(c.noticesCut, s.NoticesCut)
	to.gauge(c.unsaved, float64(s.Unsaved))
	if s.Segments {
		to.gauge(c.transfers, float64(s.Sending), "sending")
		to.gauge(c.transfers, float64(s.Receiving), "receiving")
	}
	if p := &s.Signals; p.Known {
		to.count(c.pathChanges, p.Changes)
		to.count(c.pathReports, p.All, "any")
		to.count(c.pathReports, p.Paths, "one")
		to.count(c.pathFailed, p.Failed)
		to.count(c.pathSpared, p.Spared)
		to.gauge(c.pathSubscribers, float64(p.Subscribers), p.Mode)
		to.gauge(c.pathDue, float64(p.Due))
		to.gauge(c.pathLevels, float64(p.Levels))
	}
	if v := x.View; v != nil {
		members := 0
		for _, g := range v.Groups {
			members += len(g.Members)
		}
		to.gauge(c.groups, float64(len(v.Groups)))
		to.gauge(c.members, float64(members))
		to.gauge(c.services, float64(len(v.Services)))
		to.gauge(c.subscriptions, float64(len(v.Subs)))
	}
}
