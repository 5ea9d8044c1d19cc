package api

import (
	"context"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// Counting is the part of Backend about port counters.
type Counting interface {
	// Counters are the ports in an order; an error is the client's.
	Counters(q CountersQuery) (Counters, error)
	// PortCounters are those of one port, named by GUID of node or port, and number.
	PortCounters(guid string, num int) (PortCounters, error)
	// Worst are the worst ports in each order.
	Worst(limit int) Worst
	// Findings are what is wrong with the subnet by its counters and states.
	Findings(q FindingsQuery) Findings
	// HotSpots are the hosts that are sent more than they take: the newest up to a limit, with as many
	// hosts of each list; 0: all.
	HotSpots(limit int) HotSpots
	// CountersDump has the totals as OpenSM writes them to a file.
	// mach: for programs. An error says why there are none.
	CountersDump(mach bool) (string, error)
	// FabricMetrics writes counters in Prometheus' text format.
	FabricMetrics(w io.Writer, q FabricMetrics) error
}

// CountersQuery is what /v1/counters is asked for.
type CountersQuery struct {
	By    string
	Limit int
	All   bool
}

// Counters is the body of /v1/counters.
type Counters struct {
	Round      uint64    `json:"round" doc:"number of the last round of polling; 0: none has ended"`
	Note       string    `json:"note,omitempty" doc:"why no counters have been read, or none any more"`
	Period     float64   `json:"period_seconds"`
	Generation uint64    `json:"generation" doc:"of the published state"`
	Polled     int       `json:"ports_polled"`
	Agents     int       `json:"agents"`
	Silent     int       `json:"agents_silent"`
	Requests   uint64    `json:"requests"`
	Failed     uint64    `json:"requests_failed"`
	Cleared    uint64    `json:"clears_seen" doc:"times that the counters of a port went back"`
	Ports      []PortUse `json:"ports"`
}

// Worst is the body of /v1/worst.
type Worst struct {
	Round    uint64    `json:"round" doc:"number of the last round of polling; 0: none has ended"`
	Note     string    `json:"note,omitempty" doc:"why no counters have been read, or none any more"`
	Period   float64   `json:"period_seconds"`
	Polled   int       `json:"ports_polled"`
	Agents   int       `json:"agents"`
	Silent   int       `json:"agents_silent"`
	Use      []PortUse `json:"use" doc:"the busiest"`
	Wait     []PortUse `json:"wait" doc:"those that wait longest"`
	Discards []PortUse `json:"discards" doc:"those that discard most now"`
	Errors   []PortUse `json:"errors" doc:"those whose errors grow, then those with most"`
}

// PortUse is how a port was used between its last two samples.
type PortUse struct {
	GUID        string            `json:"guid" doc:"of the node"`
	Description string            `json:"description"`
	Port        int               `json:"port"`
	Peer        *LinkEnd          `json:"peer,omitempty"`
	Gbps        float64           `json:"gbps" doc:"data rate of the link; 0: there is none"`
	Xmit        float64           `json:"xmit" doc:"share of the data rate"`
	Rcv         float64           `json:"rcv" doc:"share of the data rate"`
	Wait        float64           `json:"wait" doc:"share of time in which it had something to send and could not"`
	XmitPackets float64           `json:"xmit_packets_per_second"`
	RcvPackets  float64           `json:"rcv_packets_per_second"`
	Errors      map[string]uint64 `json:"errors,omitempty" doc:"totals of error counters that are not 0"`
	// Growing are those that grow.
	Growing map[string]float64 `json:"errors_per_second,omitempty" doc:"of error counters that grew between the samples"`
	Flags   []string           `json:"flags" doc:"sampled, cleared, overflowed, stuck (a counter is at its end), narrow (32 bits), silent"`
}

// PortCounters is the body of /v1/ports/{guid}/{num}/counters.
type PortCounters struct {
	PortUse
	Round    uint64             `json:"round"`
	Age      float64            `json:"age_seconds" doc:"from the sample to the end of the round"`
	Seconds  float64            `json:"seconds" doc:"between the last two samples; 0: there is one only"`
	WaitTick float64            `json:"wait_tick_seconds" doc:"unit of PortXmitWait; 0: the port does not tell"`
	Counters map[string]Counter `json:"counters" doc:"by their names in the specification; data in words of 4 bytes"`
	Details  map[string]uint64  `json:"details" doc:"other counters that are not 0, as the agent gave them last"`
	History  []CounterPoint     `json:"history" doc:"oldest first"`
	Virtual  []VirtualCounters  `json:"virtual" doc:"virtual ports"`
}

// Counter is one counter of a port.
type Counter struct {
	Total uint64  `json:"total" doc:"goes on when the counter is cleared or overflows"`
	Value uint64  `json:"value" doc:"what the agent said"`
	Delta uint64  `json:"delta" doc:"between the last two samples"`
	Rate  float64 `json:"rate,omitempty" doc:"delta in a second"`
}

// CounterPoint is one sample of the past.
type CounterPoint struct {
	Round   uint64  `json:"round"`
	Age     float64 `json:"age_seconds"`
	Seconds float64 `json:"seconds"`
	Xmit    float64 `json:"xmit"`
	Rcv     float64 `json:"rcv"`
	Wait    float64 `json:"wait"`
	Errors  int     `json:"errors" doc:"all error counters together; 65535: that many or more"`
}

// VirtualCounters are those of a virtual port.
type VirtualCounters struct {
	Index    int                `json:"index"`
	Seconds  float64            `json:"seconds"`
	Counters map[string]Counter `json:"counters"`
}

type countersInput struct {
	By    string `query:"by" enum:"use,wait,discards,errors" default:"use" doc:"the highest first"`
	Limit int    `query:"limit" minimum:"0" maximum:"1000000" default:"0" doc:"0: all"`
	All   bool   `query:"all" doc:"ports with 0 too"`
}

type worstInput struct {
	Limit int `query:"limit" minimum:"1" maximum:"100" default:"10" doc:"ports in each table"`
}

type portInput struct {
	GUID string `path:"guid" doc:"of the node or of the port"`
	Num  int    `path:"num" minimum:"0" maximum:"254"`
}

func counting(a huma.API, b Counting, mux *router) {
	huma.Get(a, "/v1/counters", func(_ context.Context, in *countersInput) (*body[Counters], error) {
		c, err := b.Counters(CountersQuery{By: in.By, Limit: in.Limit, All: in.All})
		if err != nil {
			return nil, huma.Error422UnprocessableEntity(err.Error())
		}
		return reply(c), nil
	})
	huma.Get(a, "/v1/worst", func(_ context.Context, in *worstInput) (*body[Worst], error) {
		return reply(b.Worst(in.Limit)), nil
	})
	huma.Get(a, "/v1/ports/{guid}/{num}/counters", func(_ context.Context, in *portInput) (*body[PortCounters], error) {
		c, err := b.PortCounters(in.GUID, in.Num)
		if err != nil {
			return nil, huma.Error404NotFound(err.Error())
		}
		return reply(c), nil
	})
	mux.HandleFunc("GET /metrics/fabric", fabricMetrics(b))
	mux.HandleFunc("GET /v1/counters/opensm", func(w http.ResponseWriter, r *http.Request) {
		text, err := b.CountersDump(r.URL.Query().Get("form") == "mach")
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte(text))
	})
}
