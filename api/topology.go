package api

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"heddle/fabric/slurm"
)

// Topologies is the subnet as other programs want it.
type Topologies interface {
	// Slurm is the subnet as a workload manager sees it, and the number of the published state that it is of.
	// The error says why there is none.
	Slurm(o slurm.Options) (*slurm.Topology, uint64, error)
	// Netlist writes the subnet as ibnetdiscover does. The function knows the state that it writes, whose
	// number is the second result.
	Netlist() (write func(io.Writer) error, generation uint64, err error)
	// Rails says which hosts break the rail rule.
	Rails() Rails
	// CheckCabling compares the cables with a plan, whose text has a name for messages. With partial, cables
	// of nodes that the plan does not name are not reported.
	CheckCabling(name, plan string, partial bool) (Cabling, error)
	// Cabling is how the cables compare with the plan of --cabling.
	Cabling() CablingState
}

// Rails is the body of /v1/rails.
type Rails struct {
	Hosts     int         `json:"hosts"`
	Rails     int         `json:"rails" doc:"adapters of most hosts"`
	Units     int         `json:"units" doc:"groups of hosts whose adapters are, rail by rail, on the same switches; 0: most hosts have one adapter"`
	Misplaced []RailFault `json:"misplaced" doc:"hosts that are cabled otherwise than most of their unit"`
	Unnamed   int         `json:"unnamed,omitempty" doc:"adapters whose description does not begin with the name of a host"`
}

// RailFault is a host that breaks the rail rule.
type RailFault struct {
	Host    string      `json:"host"`
	Missing int         `json:"missing,omitempty" doc:"adapters fewer than the other hosts of the unit have"`
	Swapped bool        `json:"swapped,omitempty" doc:"two cables of the host are exchanged"`
	Wrong   []RailWrong `json:"wrong,omitempty"`
}

// RailWrong is an adapter on the wrong switch.
type RailWrong struct {
	Rail    int    `json:"rail" doc:"number of the adapter in the host, from 1"`
	Adapter string `json:"adapter" doc:"its description"`
	Port    int    `json:"port"`
	On      string `json:"on" doc:"the switch that it is on: description and node GUID"`
	Should  string `json:"should,omitempty" doc:"the switch where the unit's other hosts have it"`
}

// topologies adds what schedulers and scripts read. An unchanged subnet gives 304 for If-None-Match: the
// ETag of a text names this handler and the number of the published state. Another process numbers its
// states anew, so the number alone could stand for another subnet.
func topologies(a huma.API, mux *router, b Topologies) {
	own := rand.Text()[:8]
	huma.Register(a, huma.Operation{
		OperationID: "check-cabling", Method: http.MethodPost, Path: "/v1/cabling/check", MaxBodyBytes: maxPlan,
		Summary:     "Compare the cables with a plan",
		Description: "The plan is a netlist, the text of ibnetdiscover, or a CSV table. Nothing is changed or stored.",
	}, func(_ context.Context, in *cablingInput) (*body[Cabling], error) {
		r, err := b.CheckCabling(in.Body.Name, in.Body.Plan, in.Body.Partial)
		if err != nil {
			return nil, huma.Error422UnprocessableEntity(err.Error())
		}
		return reply(r), nil
	})
	huma.Get(a, "/v1/cabling", func(context.Context, *struct{}) (*body[CablingState], error) {
		return reply(b.Cabling()), nil
	})
	huma.Get(a, "/v1/rails", func(context.Context, *struct{}) (*body[Rails], error) {
		r := b.Rails()
		r.Misplaced = nonNil(r.Misplaced)
		return reply(r), nil
	})
	mux.HandleFunc("GET /v1/topology/ibnetdiscover", func(w http.ResponseWriter, r *http.Request) {
		write, gen, err := b.Netlist()
		if err != nil {
			refuse(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		text(w, r, etag(own, gen), write)
	})
	mux.HandleFunc("GET /v1/topology/slurm", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		rails, err := slurm.ParseRails(q.Get("rails"))
		if err != nil {
			refuse(w, http.StatusBadRequest, err.Error())
			return
		}
		size := 0
		if s := q.Get("block"); s != "" {
			if size, err = strconv.Atoi(s); err != nil || size < 1 {
				refuse(w, http.StatusBadRequest, fmt.Sprintf("block %q; give the least number of hosts of a block", s))
				return
			}
		}
		yaml := false
		switch f := q.Get("format"); f {
		case "", "conf":
		case "yaml":
			yaml = true
		default:
			refuse(w, http.StatusBadRequest, fmt.Sprintf("format %q; give conf or yaml", f))
			return
		}
		t, gen, err := b.Slurm(slurm.Options{Rails: rails})
		if err == nil && size > 0 {
			_, _, _, err = t.Blocks(size)
		}
		if err != nil {
			refuse(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		text(w, r, etag(own, gen), func(w io.Writer) error { return t.Write(w, size, yaml) })
	})
}

func etag(own string, gen uint64) string { return fmt.Sprintf(`"%s-%d"`, own, gen) }

// text answers with a text of a published state.
func text(w http.ResponseWriter, r *http.Request, tag string, write func(io.Writer) error) {
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "no-cache")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(textTime))
	_ = write(w) // an error means that the client is gone
}

// textTime is how long a client may take for the text of a large subnet: 3 MB at 11,664 hosts.
const textTime = time.Minute
