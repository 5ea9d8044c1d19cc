package placement

import (
	"fmt"
	"slices"
)

// State is how far a placement is carried out. What a placement asks for may change in
// any state but the last: it is then waiting again.
//
//	waiting ──► moving ──► placed         an address on its way, and at its place
//	   │          │          │
//	   └──────────┴──────────┴──► rolling back ──► refused      its place cannot have it
//	   any ──► ending ──► evicting ──► ended                    it is not wanted any more
type State uint8

const (
	Waiting     State = iota // not at its place, for a cause that is reported
	Moving                   // being brought to its place
	Placed                   // its place holds it; or nothing does, and nothing is to
	RollingBack              // its place cannot have it: to be where it was, or nowhere
	Refused                  // it is where it was, or nowhere
	Ending                   // nobody wants it: the function that holds it is to give it up
	Evicting                 // the function did not give it up when it was asked first
	Ended                    // nothing holds it: it is gone

	NumStates
)

var stateNames = [NumStates]string{"waiting", "moving", "placed", "rolling back", "refused", "ending", "evicting", "ended"}

func (s State) String() string { return stateNames[s] }

// transitions are the legal changes of state. A placement that is set again, or whose VPort keeps
// its address though nobody wants the placement, is waiting again.
var transitions = [NumStates][]State{
	Waiting:     {Moving, Placed, RollingBack, Ending},
	Moving:      {Waiting, Placed, RollingBack, Ending},
	Placed:      {Waiting, Moving, RollingBack, Ending},
	RollingBack: {Waiting, Refused, Evicting},
	Refused:     {Waiting, RollingBack, Evicting},
	Ending:      {Waiting, Evicting, Ended},
	Evicting:    {Waiting, Ended},
}

func (s State) mayBecome(to State) bool {
	return slices.Contains(transitions[s], to)
}

// become changes the state. It panics on a change that is not legal, which is a mistake of the
// program.
func (l *placement) become(to State) {
	if l.state == to {
		return
	}
	if !l.state.mayBecome(to) {
		panic(fmt.Sprintf("placement: placement of GUID %v: %v cannot become %v", l.GUID, l.state, to))
	}
	if onBecome != nil {
		onBecome(l.state, to)
	}
	l.state = to
}

// onBecome and onStep, if set, see every change: tests learn by them what is reached.
var (
	onBecome func(from, to State)
	onStep   func(from, to Step)
)

// fail notes why its place, or the function that is to give it up, does not do as it is to.
func (l *placement) fail(f failure) {
	l.failed = f
	if l.state == Ending || l.state == Evicting {
		l.become(Evicting)
		return
	}
	l.become(RollingBack)
}

// unwanted reports whether nobody wants the placement any more.
func (l *placement) unwanted() bool { return l.state >= Ending }

// hasFailed reports whether its place cannot have it, or a function kept it.
func (l *placement) hasFailed() bool {
	return l.state == RollingBack || l.state == Refused || l.state == Evicting
}

// Step is how far the batch under way has come.
type Step uint8

const (
	Idle    Step = iota
	Storing      // the LIDs that were assigned are being stored
	Leaving      // functions give up addresses
	Routing      // LIDs get the entries of their new ports
	Putting      // functions get addresses

	NumSteps
)

var stepNames = [NumSteps]string{"idle", "storing", "leaving", "routing", "putting"}

func (s Step) String() string { return stepNames[s] }

// stepTransitions are the legal changes of a batch. Any step ends with a mastership.
var stepTransitions = [NumSteps][]Step{
	Idle:    {Storing},
	Storing: {Leaving, Idle},
	Leaving: {Routing, Idle},
	Routing: {Putting, Idle},
	Putting: {Idle},
}

// next is to, which it checks.
func (s Step) next(to Step) Step {
	if s != to && !slices.Contains(stepTransitions[s], to) {
		panic(fmt.Sprintf("placement: a batch of placements that is %v cannot be %v", s, to))
	}
	if s != to && onStep != nil {
		onStep(s, to)
	}
	return to
}
