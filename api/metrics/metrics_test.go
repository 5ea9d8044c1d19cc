package metrics

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"heddle/perf/findings"
)

// scrape is what /metrics says.
func scrape(t *testing.T, x Values) string {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(New(func() Values { return x }), promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

// TestHistograms: bucket i of Counts is below 2^i, of microseconds or of whole
// numbers; repairs count up to their bound.
func TestHistograms(t *testing.T) {
	x := Values{SA: SA{
		Took:    []Counts{{Label: "PathRecord", Buckets: []uint64{0, 2, 3, 4}, Sum: 30_000}},
		Batches: Counts{Buckets: []uint64{0, 5, 7, 1}, Sum: 40},
		Busy:    []Count{{Labels: []string{"queue"}, N: 6}},
	}}
	x.Repairs.Policy = "availability"
	x.Repairs.Took.Observe(time.Millisecond)
	x.Repairs.Took.Observe(3 * time.Millisecond)
	x.Repairs.Took.Observe(time.Hour)
	text := scrape(t, x)
	for _, want := range []string{
		`heddle_sa_answers_total{attribute="PathRecord"} 9`,
		`heddle_sa_answer_seconds_bucket{attribute="PathRecord",le="1e-06"} 0`,
		`heddle_sa_answer_seconds_bucket{attribute="PathRecord",le="2e-06"} 2`,
		`heddle_sa_answer_seconds_bucket{attribute="PathRecord",le="4e-06"} 5`,
		`heddle_sa_answer_seconds_bucket{attribute="PathRecord",le="+Inf"} 9`,
		`heddle_sa_answer_seconds_sum{attribute="PathRecord"} 3e-05`,
		`heddle_sa_batch_requests_bucket{le="0"} 0`,
		`heddle_sa_batch_requests_bucket{le="1"} 5`,
		`heddle_sa_batch_requests_bucket{le="3"} 12`,
		`heddle_sa_batch_requests_count 13`,
		`heddle_sa_batch_requests_sum 40`,
		`heddle_sa_busy_total{reason="queue"} 6`,
		`heddle_repair_seconds_bucket{le="0.001"} 1`,
		`heddle_repair_seconds_bucket{le="0.002"} 1`,
		`heddle_repair_seconds_bucket{le="0.004"} 2`,
		`heddle_repair_seconds_bucket{le="131.072"} 2`,
		`heddle_repair_seconds_count 3`,
		`heddle_repairs_total{policy="availability"} 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if strings.Contains(text, "rmpp_transfers") {
		t.Error("transfers of a port that does not segment")
	}
}

// TestFindings: the number of series depends on the rules, not on the findings.
func TestFindings(t *testing.T) {
	r := &findings.Report{Missed: 7, Open: make([]findings.Finding, 500), Rules: []findings.Count{
		{Rule: "bad_cable", Severity: findings.Warning, Open: 3, Opened: 9, Healed: 3, Unseen: 1, Explained: 1, SwitchedOff: 1},
		{Rule: "node_lost", Severity: findings.Critical},
	}}
	text := scrape(t, Values{Findings: r})
	for _, want := range []string{
		`heddle_findings{rule="bad_cable",severity="warning"} 3`,
		`heddle_findings{rule="node_lost",severity="critical"} 0`,
		`heddle_findings_opened_total{rule="bad_cable"} 9`,
		`heddle_findings_closed_total{reason="healed",rule="bad_cable"} 3`,
		`heddle_findings_closed_total{reason="unseen",rule="bad_cable"} 1`,
		`heddle_findings_closed_total{reason="explained",rule="bad_cable"} 1`,
		`heddle_findings_closed_total{reason="off",rule="bad_cable"} 1`,
		`heddle_findings_missed 7`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if n := strings.Count(text, "\nheddle_findings"); n != 6*len(r.Rules)+1 {
		t.Errorf("%d series", n)
	}
	if strings.Contains(scrape(t, Values{}), "heddle_findings") {
		t.Error("findings without a report")
	}
}
