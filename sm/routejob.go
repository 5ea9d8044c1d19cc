package sm

import (
	"heddle/fabric"
	"heddle/route"
)

// Job is a computation that the shell runs on a bounded pool: routing,
// proving and planning a transition. It is a pure function of its inputs, so
// it may run anywhere and its result does not depend on when.
type Job struct {
	Gen uint64 // generation; a result of an older one is dropped

	graph       *fabric.Graph
	engines     []route.Engine
	explicit    bool
	allowUnsafe bool
	opt         route.Options
}

// JobResult is what a Job found.
type JobResult struct {
	Gen    uint64
	Engine string
	Tables *route.Tables // nil if nothing may be installed
	Passed []string      // "engine: reason"
	Unsafe string        // why the tables do not verify, if AllowUnsafe let them through
	Err    error         // why there are no tables
}
