package sm

import (
	"fmt"
	"slices"
)

// placementState is how far a placement is carried out. What a placement asks for may change in
// any state but the last: it is then waiting again.
//
//	waiting ──► moving ──► placed         an address on its way, and at its place
//	   │          │          │
//	   └──────────┴──────────┴──► rolling back ──► refused      its place cannot have it
//	   any ──► ending ──► evicting ──► ended                    it is not wanted any more
type placementState uint8

const (
	stateWaiting     placementState = iota // not at its place, for a cause that is reported
	stateMoving                            // being brought to its place
	statePlaced                            // its place holds it; or nothing does, and nothing is to
	stateRollingBack                       // its place cannot have it: to be where it was, or nowhere
	stateRefused                           // it is where it was, or nowhere
	stateEnding                            // nobody wants it: the function that holds it is to give it up
	stateEvicting                          // the function did not give it up when it was asked first
	stateEnded                             // nothing holds it: it is gone

	numStates
)

var stateNames = [numStates]string{"waiting", "moving", "placed", "rolling back", "refused", "ending", "evicting", "ended"}

func (s placementState) String() string { return stateNames[s] }

// transitions are the legal changes of state. A placement that is set again, or whose VPort keeps
// its address though nobody wants the placement, is waiting again.
var transitions = [numStates][]placementState{
	stateWaiting:     {stateMoving, statePlaced, stateRollingBack, stateEnding},
	stateMoving:      {stateWaiting, statePlaced, stateRollingBack, stateEnding},
	statePlaced:      {stateWaiting, stateMoving, stateRollingBack, stateEnding},
	stateRollingBack: {stateWaiting, stateRefused, stateEvicting},
	stateRefused:     {stateWaiting, stateRollingBack, stateEvicting},
	stateEnding:      {stateWaiting, stateEvicting, stateEnded},
	stateEvicting:    {stateWaiting, stateEnded},
}

func (s placementState) mayBecome(to placementState) bool {
	return slices.Contains(transitions[s], to)
}

// become changes the state. It panics on a change that is not legal, which is a mistake of the
// program.
func (l *lease) become(to placementState) {
	if l.state == to {
		return
	}
	if !l.state.mayBecome(to) {
		panic(fmt.Sprintf("sm: placement of GUID %v: %v cannot become %v", l.GUID, l.state, to))
	}
	l.state = to
}

// fail notes why its place, or the function that is to give it up, does not do as it is to.
func (l *lease) fail(f failure) {
	l.failed = f
	if l.state == stateEnding || l.state == stateEvicting {
		l.become(stateEvicting)
		return
	}
	l.become(stateRollingBack)
}

// unwanted reports whether nobody wants the placement any more.
func (l *lease) unwanted() bool { return l.state >= stateEnding }

// hasFailed reports whether its place cannot have it, or a function kept it.
func (l *lease) hasFailed() bool {
	return l.state == stateRollingBack || l.state == stateRefused || l.state == stateEvicting
}

// batchStep is how far the batch under way has come.
type batchStep uint8

const (
	batchIdle  batchStep = iota
	batchStore           // the LIDs that were assigned are being stored
	batchLeave           // functions give up addresses
	batchRoute           // LIDs get the entries of their new ports
	batchPut             // functions get addresses

	numSteps
)

var stepNames = [numSteps]string{"idle", "storing", "leaving", "routing", "putting"}

func (s batchStep) String() string { return stepNames[s] }

// steps are the legal changes of a batch. Any step ends with a mastership.
var steps = [numSteps][]batchStep{
	batchIdle:  {batchStore},
	batchStore: {batchLeave, batchIdle},
	batchLeave: {batchRoute, batchIdle},
	batchRoute: {batchPut, batchIdle},
	batchPut:   {batchIdle},
}

// next is to, which it checks.
func (s batchStep) next(to batchStep) batchStep {
	if s != to && !slices.Contains(steps[s], to) {
		panic(fmt.Sprintf("sm: a batch of placements that is %v cannot be %v", s, to))
	}
	return to
}
