package agent

import (
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
)

// Config holds the bounds of a Core. Defaults returns them all; zero values are taken as
// they are.
type Config struct {
	// Policy says when an entry leaves. What this struct says of ages, of subscriptions and of
	// questions for changes is for UntilChanged.
	Policy Policy
	// MaxAge is how long an entry is served after the query that filled it was sent.
	MaxAge time.Duration
	// VerifyTime is the time between questions to the SA which paths changed. Only an SA with
	// generations (docs/signalling.md) is asked.
	VerifyTime time.Duration
	// BlindAge takes the place of MaxAge for entries that were read while the SA had not
	// confirmed the subscriptions, or had refused them.
	BlindAge time.Duration
	// StaleTime is how long beyond its age an entry is served while the SA does not answer.
	StaleTime time.Duration
	// NegativeTime is how long "no such path" is served without another query.
	NegativeTime time.Duration
	// RenewTime is the time between renewals of the subscriptions.
	RenewTime time.Duration
	// MaxEntries bounds the entries, about 400 bytes each. MaxWaiting bounds the askers that
	// wait, and the queries that are queued or in flight.
	MaxEntries, MaxWaiting int
	// Window is the most queries in flight.
	Window int
	// Timeout is how long the first try of a query waits; each of Retries further ones waits
	// twice as long as the one before.
	Timeout time.Duration
	Retries int
	// TransportTimed and FirstTID are those of mad.Config.
	TransportTimed bool
	FirstTID       uint32
}

// Defaults are the settings of heddle agent.
func Defaults() Config {
	return Config{
		MaxAge: 10 * time.Minute, VerifyTime: 30 * time.Second,
		BlindAge: 30 * time.Second, StaleTime: 10 * time.Minute,
		NegativeTime: time.Second, RenewTime: 5 * time.Minute,
		MaxEntries: 1 << 16, MaxWaiting: 1 << 12, Window: 16,
		Timeout: 250 * time.Millisecond, Retries: 2,
	}
}

// Policy says when an entry leaves the cache.
type Policy uint8

// The policies.
const (
	// UntilChanged is that of heddle agent: an entry leaves by notices, by changes of the port or
	// of the manager, or by age (see the package documentation).
	UntilChanged Policy = iota
	// AsPublished is Algorithm 2 as it is printed, for comparisons: an entry stays as it was first
	// read, however wrong it becomes, unless it is flushed or room is needed. The cache subscribes
	// to no notices, asks for no changes, and does not keep that there is no path.
	AsPublished
)

// String is the name of the policy in reports.
func (p Policy) String() string { return [...]string{"until changed", "as published"}[p] }

// Query is a question for a path: the components of Record that Mask names.
type Query struct {
	Mask   wire.CompMask
	Record wire.PathRecord
}

// Port is the state of the port, as its software sees it.
type Port struct {
	// Active: the port carries data, so the SA can be asked.
	Active bool
	LID    ib.LID
	LMC    uint8
	SM     mad.Addr // where the SA is: LID, SL and P_Key index; QP 1
	GIDs   []ib.GID // the first is the port's own
	PKeys  []ib.PKey
	// Deaf: no Report reaches the port, because another program receives them. The SA is not
	// asked for any.
	Deaf bool
}

// Event is what Step takes: one of SetPort, Reregister, Ask, Received, Timer, Flush.
type Event interface{ event() }

// SetPort reports the state of the port, whether or not it changed.
type SetPort struct{ Port Port }

// Reregister reports that the SA asked for renewed subscriptions (ClientReregister,
// IBA §14.4.11).
type Reregister struct{}

// Ask asks for a path. It is answered exactly once, at the latest after Wait.
type Ask struct {
	Token uint64 // returned in the Answer
	Query Query
	// Wait bounds the time to the answer; 0: answer from the cache alone.
	Wait time.Duration
	// Direct: ask the SA whatever the cache holds. The cache keeps the answer.
	Direct bool
}

// Received is a packet from the port: a response, a time-out of the transport, or a Report.
type Received struct{ P *mad.Packet }

// Timer reports that the time in Output.Timer has come.
type Timer struct{}

// Flush removes entries: those to or from a GID, those to or from a LID, or all if both
// are zero.
type Flush struct {
	GID ib.GID
	LID ib.LID
}

func (SetPort) event()    {}
func (Reregister) event() {}
func (Ask) event()        {}
func (Received) event()   {}
func (Timer) event()      {}
func (Flush) event()      {}

// Result is the outcome of an Ask.
type Result uint8

// The results.
const (
	Found     Result = iota // Answer.Record is the path
	NoPath                  // the SA has no such path
	NotCached               // Wait is 0, and the cache has no answer
	TimedOut                // no answer within Wait
	Refused                 // the SA refuses the query, or its answer makes no sense
	Down                    // the port is not active, or knows no SA
	Busy                    // Config.MaxWaiting askers wait already
)

const results = int(Busy) + 1

// String is the name of the result as metrics have it.
func (r Result) String() string {
	return [...]string{"found", "no_path", "not_cached", "timed_out", "refused", "down", "busy"}[r]
}

// Source says where an answer comes from.
type Source uint8

// The sources.
const (
	FromCache Source = iota // an entry that is fresh
	FromStale               // an entry that is old or suspect, because the SA is silent
	FromSA                  // a query
	FromNone                // there is no answer
)

const sources = int(FromNone) + 1

// String is the name of the source as metrics have it.
func (s Source) String() string { return [...]string{"cache", "stale", "sa", "none"}[s] }

// Answer answers an Ask.
type Answer struct {
	Token  uint64
	Result Result
	Source Source
	Record wire.PathRecord // of Found
	Status ib.Status       // of Refused: the SA's status; 0: the answer makes no sense
	Age    time.Duration   // of FromCache and FromStale: time since the query was sent
}

// Send is a packet to send from QP 1.
type Send struct {
	Addr    mad.Addr
	Timeout time.Duration // of this try; 0: no response is expected
	MAD     ib.MAD
}

// Notice is an occurrence for the log.
type Notice struct {
	Kind string // one word, for programs
	Text string
}

// Output is what one or several steps want done. Reset empties it.
type Output struct {
	Sends   []Send
	Answers []Answer
	Notices []Notice
	// Refresh: the port may have changed; report its state with SetPort.
	Refresh bool
	// Timer is when Timer must be passed next; mad.Never if not.
	Timer mad.Time
}

// Reset empties o and keeps its memory.
func (o *Output) Reset() {
	*o = Output{Sends: o.Sends[:0], Answers: o.Answers[:0], Notices: o.Notices[:0], Timer: mad.Never}
}

// Stats are counts since the start, and what there is now.
type Stats struct {
	Answers     [results][sources]uint64 // by Result and Source
	Joined      uint64                   // askers that waited for a query of another
	Queries     uint64                   // path queries submitted, without their repetitions
	Unanswered  uint64                   // of them, those without any answer
	Unpermitted uint64                   // records that the SA did not permit to keep
	Repeated    uint64                   // queries repeated because a notice came while they were in flight
	// ChangeQueries are questions whether something changed.
	ChangeQueries uint64
	Reports       uint64 // Reports of notices from the SA
	Foreign       uint64 // Reports from elsewhere, ignored
	Noticed       uint64 // entries removed by notices
	Renewed       uint64 // entries that got new values from notices
	Flushed       uint64 // entries removed by Flush or a change of the port
	Aged          uint64 // entries removed because of their age
	Evicted       uint64 // entries removed to make room
	Gaps          uint64 // times at which notices may have been missed

	Entries, Negative, Suspect int // entries now: paths; absent paths; paths to be asked for again
	Waiting, InFlight          int // askers and queries now
	Subscribed                 bool
	Generation                 uint64 // of the path state, as the cache has it; 0: none
	Silent                     bool   // the SA did not answer the last query
}
