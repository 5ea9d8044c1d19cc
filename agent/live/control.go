package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"heddle/agent"
	"heddle/ib"
	"heddle/internal/version"
	"heddle/mad"
)

// Status is what the control socket shows.
type Status struct {
	Version       string        `json:"version"`
	UptimeSeconds float64       `json:"uptime_seconds"`
	Ports         []PortStatus  `json:"ports"`
	ACM           ACMStatus     `json:"acm"`
	Netlink       NetlinkStatus `json:"netlink"`
}

// PortStatus is one port and its cache.
type PortStatus struct {
	Port       string            `json:"port"`
	Active     bool              `json:"active"`
	LID        ib.LID            `json:"lid"`
	SMLID      ib.LID            `json:"sm_lid"`
	GIDs       []ib.GID          `json:"gids"`
	Subscribed bool              `json:"subscribed"`
	Silent     bool              `json:"sa_silent"`
	Generation string            `json:"generation"` // empty: none
	Entries    int               `json:"entries"`
	Negative   int               `json:"negative"`
	Suspect    int               `json:"suspect"`
	Waiting    int               `json:"waiting"`
	InFlight   int               `json:"in_flight"`
	Answers    map[string]uint64 `json:"answers"` // "found/cache" …; those that are not 0
	Queries    uint64            `json:"queries"`
	Unanswered uint64            `json:"unanswered"`
	Joined     uint64            `json:"joined"`
	Reports    uint64            `json:"reports"`
	Noticed    uint64            `json:"noticed"`
	Renewed    uint64            `json:"renewed"`
	Evicted    uint64            `json:"evicted"`
}

// ACMStatus is about the socket of ibacm's protocol.
type ACMStatus struct {
	Addresses   []string `json:"addresses"`
	Connections int64    `json:"connections"`
	Requests    uint64   `json:"requests"`
	NoData      uint64   `json:"no_data"`
	Errors      uint64   `json:"errors"`
}

// NetlinkStatus is about the kernel's questions.
type NetlinkStatus struct {
	Served    bool   `json:"served"`
	Why       string `json:"why,omitempty"` // if not served
	Questions uint64 `json:"questions"`
	Paths     uint64 `json:"paths"`
	Misses    uint64 `json:"misses"`
	Overruns  uint64 `json:"overruns"`
}

// Path is one cached answer.
type Path struct {
	Port        string  `json:"port"`
	State       string  `json:"state"` // fresh, suspect, old; absent: the SA has no such path
	SGID        ib.GID  `json:"sgid"`
	DGID        ib.GID  `json:"dgid"`
	SLID        ib.LID  `json:"slid"`
	DLID        ib.LID  `json:"dlid"`
	PKey        ib.PKey `json:"pkey"`
	SL          ib.SL   `json:"sl"`
	MTU         int     `json:"mtu"`
	RateGbps    float64 `json:"rate_gbps"`
	ServiceID   string  `json:"service_id,omitempty"`
	AgeSeconds  float64 `json:"age_seconds"`
	LeftSeconds float64 `json:"left_seconds"`
}

// Status collects the status.
func (s *Server) Status(ctx context.Context) Status {
	out := Status{Version: version.Version, UptimeSeconds: time.Since(s.epoch).Seconds(), Ports: []PortStatus{}}
	for i, st := range s.stats(ctx) {
		l := s.ports[i]
		p := l.state.Load()
		ps := PortStatus{
			Port: l.cfg.name(), Active: p.Active, LID: p.LID, SMLID: p.SM.LID, GIDs: p.GIDs, Subscribed: st.Subscribed, Silent: st.Silent,
			Entries: st.Entries, Negative: st.Negative, Suspect: st.Suspect, Waiting: st.Waiting, InFlight: st.InFlight,
			Answers: map[string]uint64{}, Queries: st.Queries, Unanswered: st.Unanswered, Joined: st.Joined, Reports: st.Reports,
			Noticed: st.Noticed, Renewed: st.Renewed, Evicted: st.Evicted,
		}
		if st.Generation != 0 {
			ps.Generation = fmt.Sprintf("%#x", st.Generation)
		}
		eachAnswer(&st, func(r agent.Result, src agent.Source, n uint64) {
			if n > 0 {
				ps.Answers[r.String()+"/"+src.String()] = n
			}
		})
		out.Ports = append(out.Ports, ps)
	}
	c := &s.counts
	out.ACM = ACMStatus{Connections: c.acmConns.Load(), Requests: c.acmRequests.Load(), NoData: c.acmNoData.Load(), Errors: c.acmErrors.Load(), Addresses: []string{}}
	for _, l := range s.cfg.ACM {
		out.ACM.Addresses = append(out.ACM.Addresses, l.Addr().String())
	}
	out.Netlink = NetlinkStatus{
		Served: s.served.Load(), Questions: c.nlQuestions.Load(), Paths: c.nlPaths.Load(), Misses: c.nlMisses.Load(), Overruns: c.nlOverruns.Load(),
	}
	if !out.Netlink.Served {
		if out.Netlink.Why = s.cfg.NetlinkMissing; out.Netlink.Why == "" {
			out.Netlink.Why = "the kernel has not acknowledged the time-out"
		}
	}
	return out
}

// eachAnswer calls fn for each pair of result and source that can occur.
func eachAnswer(st *agent.Stats, fn func(r agent.Result, src agent.Source, n uint64)) {
	for r := range st.Answers {
		for src, n := range st.Answers[r] {
			fn(agent.Result(r), agent.Source(src), n)
		}
	}
}

// Paths lists the cached answers.
func (s *Server) Paths(ctx context.Context) []Path {
	out := []Path{}
	for _, l := range s.ports {
		var list []Path
		if l.call(ctx, func(now mad.Time) { list = l.paths(now) }) {
			out = append(out, list...)
		}
	}
	return out
}

func (l *portLoop) paths(now mad.Time) (list []Path) {
	l.core.Entries(now, func(e agent.Entry) bool {
		r := e.Record
		p := Path{Port: l.cfg.name(), State: "fresh", AgeSeconds: e.Age.Seconds(), LeftSeconds: e.Left.Seconds()}
		switch {
		case e.NoPath:
			p.State, r = "absent", e.Query.Record
		case e.Suspect:
			p.State = "suspect"
		case e.Left <= 0:
			p.State = "old"
		}
		p.SGID, p.DGID, p.SLID, p.DLID, p.PKey, p.SL = r.SGID, r.DGID, r.SLID, r.DLID, r.PKey, r.SL
		if r.MTU != 0 {
			p.MTU, p.RateGbps = r.MTU.Bytes(), r.Rate.Gbps()
		}
		if id := e.Query.Record.ServiceID; id != 0 {
			p.ServiceID = fmt.Sprintf("%#x", id)
		}
		list = append(list, p)
		return true
	})
	return list
}

// FlushRequest names what to remove; all if both are empty.
type FlushRequest struct {
	GID string `json:"gid,omitempty"`
	LID ib.LID `json:"lid,omitempty"`
}

// FlushReply says how many entries were removed.
type FlushReply struct {
	Flushed int `json:"flushed"`
}

// maxBody bounds the body of a request.
const maxBody = 4 << 10

// decodeFlush reads the body of a flush.
func decodeFlush(r io.Reader) (f agent.Flush, err error) {
	var q FlushRequest
	d := json.NewDecoder(io.LimitReader(r, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil && !errors.Is(err, io.EOF) {
		return f, err
	}
	if q.GID != "" {
		if err := f.GID.UnmarshalText([]byte(q.GID)); err != nil {
			return f, err
		}
		if f.GID.IsZero() {
			return f, errors.New("the GID is zero")
		}
	}
	if f.LID = q.LID; f.LID != 0 && !f.LID.IsUnicast() {
		return f, fmt.Errorf("LID %d is not unicast", f.LID)
	}
	return f, nil
}

// Control is the handler of the control socket: who can connect may read and flush.
func (s *Server) Control() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /v1/agent", func(w http.ResponseWriter, r *http.Request) { reply(w, http.StatusOK, s.Status(r.Context())) })
	m.HandleFunc("GET /v1/paths", func(w http.ResponseWriter, r *http.Request) { reply(w, http.StatusOK, s.Paths(r.Context())) })
	m.HandleFunc("POST /v1/flush", func(w http.ResponseWriter, r *http.Request) {
		f, err := decodeFlush(r.Body)
		if err != nil {
			reply(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
			return
		}
		reply(w, http.StatusOK, FlushReply{Flushed: s.Flush(r.Context(), f)})
	})
	m.Handle("GET /metrics", s.Metrics())
	return m
}

func reply(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

// Metrics is the handler of the metrics alone.
func (s *Server) Metrics() http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(&collector{s})
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
}

// collector counts nothing itself: each scrape reads the loops.
type collector struct{ s *Server }

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("heddle_agent_"+name, help, labels, nil)
}

// Describe implements prometheus.Collector: the metrics depend on the ports.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(name, help string, v float64, port string) {
		out <- prometheus.MustNewConstMetric(describe(name, help, "port"), prometheus.GaugeValue, v, port)
	}
	count := func(name, help string, v uint64, labels []string, values ...string) {
		out <- prometheus.MustNewConstMetric(describe(name, help, labels...), prometheus.CounterValue, float64(v), values...)
	}
	bit := map[bool]float64{true: 1}
	for i, st := range c.s.stats(context.Background()) {
		l := c.s.ports[i]
		name := l.cfg.name()
		gauge("active", "1 while the port is active and knows a subnet manager", bit[l.state.Load().Active], name)
		gauge("subscribed", "1 while the SA has confirmed the subscriptions to notices", bit[st.Subscribed], name)
		gauge("sa_silent", "1 while the SA does not answer", bit[st.Silent], name)
		gauge("entries", "cached paths", float64(st.Entries), name)
		gauge("negative_entries", "cached answers that there is no path", float64(st.Negative), name)
		gauge("suspect_entries", "cached paths that are asked for again before they are served", float64(st.Suspect), name)
		gauge("waiting", "programs that wait for an answer", float64(st.Waiting), name)
		gauge("in_flight", "path queries without an answer yet", float64(st.InFlight), name)
		eachAnswer(&st, func(r agent.Result, src agent.Source, n uint64) {
			if n == 0 {
				return // most pairs cannot occur
			}
			count("answers_total", "answers to programs and to the kernel", n, []string{"port", "result", "source"}, name, r.String(), src.String())
		})
		port := []string{"port"}
		count("queries_total", "path queries to the SA, without repetitions", st.Queries, port, name)
		count("queries_unanswered_total", "path queries that the SA did not answer", st.Unanswered, port, name)
		count("joined_total", "questions that shared the query of another", st.Joined, port, name)
		count("change_queries_total", "questions to the SA whether paths changed", st.ChangeQueries, port, name)
		count("unpermitted_total", "paths that the SA does not permit to cache", st.Unpermitted, port, name)
		count("reports_total", "Reports of notices from the SA", st.Reports, port, name)
		count("foreign_reports_total", "Reports from elsewhere, ignored", st.Foreign, port, name)
		count("gaps_total", "times at which notices may have been missed", st.Gaps, port, name)
		count("renewed_total", "entries that got new values from notices", st.Renewed, port, name)
		for _, x := range []struct {
			why string
			n   uint64
		}{{"notice", st.Noticed}, {"flush", st.Flushed}, {"age", st.Aged}, {"room", st.Evicted}} {
			count("removed_total", "entries removed, by reason", x.n, []string{"port", "reason"}, name, x.why)
		}
	}
	n := &c.s.counts
	out <- prometheus.MustNewConstMetric(describe("acm_connections", "programs connected"), prometheus.GaugeValue, float64(n.acmConns.Load()))
	count("acm_requests_total", "requests of ibacm's protocol", n.acmRequests.Load(), nil)
	count("acm_no_data_total", "of them, those without a path or an address", n.acmNoData.Load(), nil)
	count("acm_errors_total", "of them, those that failed for another reason", n.acmErrors.Load(), nil)
	count("acm_refused_total", "connections closed because there are too many", n.acmRefused.Load(), nil)
	out <- prometheus.MustNewConstMetric(describe("netlink_served", "1 if the kernel asks this agent"), prometheus.GaugeValue, bit[c.s.served.Load()])
	count("netlink_questions_total", "questions of the kernel", n.nlQuestions.Load(), nil)
	count("netlink_paths_total", "of them, those answered with a path or a GID", n.nlPaths.Load(), nil)
	count("netlink_misses_total", "of them, those that the kernel asks the SA itself", n.nlMisses.Load(), nil)
	count("netlink_overruns_total", "times that the kernel found the socket full", n.nlOverruns.Load(), nil)
	count("netlink_malformed_total", "messages that were not understood or not sent", n.nlBad.Load(), nil)
}
