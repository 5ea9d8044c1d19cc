package job

import (
	"errors"

	"heddle/fabric"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/move"
)

// Moves is what a Job needs to move LIDs instead of routing all destinations.
type Moves struct {
	Proof    *check.Proof  // of Tables; nil: the job proves them first
	Tables   *route.Tables // installed; nil: there are none for the graph
	Requests []move.Request
	Options  move.Options
}

// fewMoves is how many moves make a short job: one takes 1 to 2 ms in a full subnet.
const fewMoves = 4

// Short reports whether a job takes a few milliseconds at most, whatever the subnet.
func (j *Job) Short() bool {
	return j.Move != nil && j.Move.Proof != nil && len(j.Move.Requests) <= fewMoves
}

// run carries the requests out.
func (in *Moves) run(g *fabric.Graph, workers int) (*move.Result, error) {
	if in.Tables == nil {
		return nil, errors.New("job: no tables are installed for the current subnet")
	}
	o := in.Options
	o.Workers = max(workers, 1)
	p := in.Proof
	if p == nil {
		p = check.Prove(g, in.Tables, check.Options{Workers: o.Workers, Groups: o.Groups})
	}
	return move.New(p, in.Requests, o)
}
