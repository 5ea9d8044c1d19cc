package process

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heddle/api"
	"heddle/api/metrics"
	"heddle/daemon"
	"heddle/daemon/eventlog"
	"heddle/replica"
	"heddle/replica/live"
	"heddle/sa"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
)

// PairConfig configures a Pair.
type PairConfig struct {
	// Live is complete but for its callbacks. The caller closes port and store after Run.
	Live live.Config
	// Active is the address of the partner's API, which this manager names to its clients while it
	// is standby.
	Active string
	// Prepare computes the moves of the LIDs from the port of the partner, which published the
	// snapshot, to this manager's port; nil: they do not move. It runs on a separate goroutine
	// while this manager is on standby, and before a takeover if that has not ended.
	Prepare func(*subnet.Snapshot) (*sm.Float, error)
	Events  *eventlog.Log
	// SetActive is called when this manager becomes the active one, or no longer is; may be nil. It
	// must not block.
	SetActive func(bool)
	Log       *slog.Logger
}

// Pair lets a process run managers while it is the active one of two (package replica/live).
type Pair struct {
	cfg  PairConfig
	pair *live.Pair

	mandates chan *Mandate // the newest one, until Await takes it
	shown    chan struct{} // the partner has published
	prepared prepared

	mu        sync.Mutex
	began     time.Time     // when the last mandate was given; guarded by mu
	answering time.Duration // until its manager served the whole subnet; guarded by mu
	takeovers map[replica.Why]uint64
}

// leaveTime bounds the handover at the end of the process, and for how long queries are passed on then. A
// standby that does not come is given up before, after replica.Config.Alone.
const leaveTime = 5 * time.Second

// NewPair makes the authority of a manager with a partner.
func NewPair(cfg PairConfig) (*Pair, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	p := &Pair{cfg: cfg, mandates: make(chan *Mandate, 1), shown: make(chan struct{}, 1), takeovers: map[replica.Why]uint64{}}
	l := cfg.Live
	if cfg.Prepare != nil {
		l.OnShown = func() {
			select {
			case p.shown <- struct{}{}:
			default:
			}
		}
	}
	l.OnActive, l.OnStandby, l.OnNotice, l.OnFork = p.active, p.standby, p.noticed, p.forked
	differing := Differing(cfg.Events)
	l.OnDiffer = func(names []string) { differing(cfg.Live.Peer, names) }
	var err error
	p.pair, err = live.New(l)
	return p, err
}

// active is called when this manager becomes active.
func (p *Pair) active(g replica.Grant) {
	p.mu.Lock()
	p.began, p.answering = time.Now(), 0
	began := p.began
	p.count(g)
	p.mu.Unlock()
	wall, at := p.pair.Wall(), time.Now()
	m := &Mandate{
		Wall: func() int64 { return wall + int64(time.Since(at)) },
		Port: p.pair.ManagerPort(), Revoked: live.ErrCut, Store: p.pair.Store(), Inherited: true,
		Configure: func(c *sm.Config, r *sa.Config) {
			c.Granted, c.MayLack, c.Partner = true, g.Stale, p.cfg.Live.Rules.Peer
			r.MustSave = true
		},
		Warm: p.warm, Published: p.pair.Show(),
		Up: func() { p.up(began) },
	}
	p.setActive(true)
	p.drop()
	p.mandates <- m // there is room: nobody else sends
}

// count counts a takeover by its reason. The first term of a state takes over from nobody. The holder of mu
// calls it.
func (p *Pair) count(g replica.Grant) {
	if !g.First {
		p.takeovers[g.Why]++
	}
}

// drop takes back a mandate that nobody has taken.
func (p *Pair) drop() {
	select {
	case m := <-p.mandates:
		m.Port.Close()
	default:
	}
}

// standby is called when this manager is no longer active. The port of its mandate is cut, which
// ends the managers.
func (p *Pair) standby(replica.Why) {
	p.setActive(false)
	p.drop()
}

func (p *Pair) setActive(on bool) {
	if p.cfg.SetActive != nil {
		p.cfg.SetActive(on)
	}
}

// up notes that the manager of the mandate of began serves the subnet.
func (p *Pair) up(began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.began.Equal(began) && p.answering == 0 {
		p.answering = time.Since(began)
	}
}

// noticeEvents are the events of notices: level, kind and text.
var noticeEvents = map[replica.NoticeKind][3]string{
	replica.NoticeActive:   {"warn", "ha_active", "this manager is active now"},
	replica.NoticeStandby:  {"warn", "ha_standby", "this manager is standby now"},
	replica.NoticePaired:   {"info", "ha_paired", "both managers have all entries"},
	replica.NoticeAlone:    {"warn", "ha_alone", "there is no spare: entries count on this manager alone"},
	replica.NoticeLeft:     {"warn", "ha_left", "this manager left the pairing: it may lack entries"},
	replica.NoticeCopied:   {"info", "ha_copied", "the state was replaced by a copy of the partner's"},
	replica.NoticeDisk:     {"error", "ha_disk", "the disk failed"},
	replica.NoticeVersions: {"error", "ha_versions", "the other manager has another version: there is no spare"},
	replica.NoticeHeld:     {"warn", "ha_other_master", "another manager is master"},
	replica.NoticePort:     {"error", "ha_port", "this manager's port does not answer"},
}

// noticed adds a notice to the events; package live logs it.
func (p *Pair) noticed(n replica.Notice) {
	x, ok := noticeEvents[n.Kind]
	if !ok || p.cfg.Events == nil {
		return
	}
	e := api.Event{Time: time.Now(), Level: x[0], Kind: x[1], Message: x[2], Attrs: map[string]string{"entry": n.Mark.String()}}
	if w := n.Why.String(); w != "" {
		e.Message += ": " + w
	}
	if n.Other != 0 {
		e.Message = live.OtherMaster(p.cfg.Live.Rules.Me, p.cfg.Live.Rules.Peer, n.Other)
		e.Attrs["port_guid"] = n.Other.String()
	}
	if n.Err != nil {
		e.Attrs["err"] = n.Err.Error()
	}
	p.cfg.Events.Add(e)
}

// forked adds a fork file that was written, or deleted, to the events; package live logs it.
func (p *Pair) forked(f live.Fork, deleted bool) {
	if p.cfg.Events == nil {
		return
	}
	e := api.Event{
		Time: time.Now(), Level: "warn", Kind: "ha_fork",
		Message: "changes that the partner may lack were put aside: heddle ctl ha forks",
		Attrs:   map[string]string{"file": f.File, "entries": strconv.Itoa(f.Entries), "first": f.First.String(), "last": f.Last.String()},
	}
	if deleted {
		e.Kind, e.Message = "ha_fork_deleted", "an old file with changes that were put aside is deleted, because there are too many of them"
	}
	p.cfg.Events.Add(e)
}

// Run implements Authority, as do the methods below.
func (p *Pair) Run(ctx context.Context) error {
	if p.cfg.Prepare != nil {
		ctx, end := context.WithCancel(ctx)
		var ended sync.WaitGroup
		ended.Go(func() { p.prepare(ctx) })
		defer ended.Wait()
		defer end()
	}
	return p.pair.Run(ctx)
}

// Turns implements looper.
func (p *Pair) Turns(ctx context.Context) error { return p.pair.Turns(ctx) }

func (p *Pair) Await(ctx context.Context) (*Mandate, error) {
	select {
	case m := <-p.mandates:
		return m, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *Pair) Ended(m *Mandate, err error) (bool, error) {
	m.Port.Close()
	// A manager whose mandate ended while it started fails with what its port or its store said.
	for _, revoked := range []error{daemon.ErrRevoked, live.ErrCut, replica.ErrStandby, replica.ErrSuperseded} {
		if errors.Is(err, revoked) {
			return true, nil
		}
	}
	return false, err
}

// Leave hands over. Until hosts know the new manager they ask this one, which passes their queries on and
// is the new one's spare: so it stays until then, also after a handover that was asked for before.
func (p *Pair) Leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	if st := p.pair.Status(); st.Role == replica.Active && st.State == live.Paired {
		if err := p.pair.Handover(ctx); err != nil {
			p.cfg.Log.Warn("the active manager ends without a handover", "kind", "ha_left_alone", "err", err)
			return
		}
	}
	if err := p.pair.Relayed(ctx); err != nil {
		p.cfg.Log.Warn("this manager ends before the new one has brought the subnet up: hosts that do not know that one get no answer", "kind", "ha_left_early", "after", leaveTime.String())
	}
}

func (p *Pair) Store() store.Store { return p.cfg.Live.Store }

func (p *Pair) Handover(ctx context.Context) error { return p.pair.Handover(ctx) }

func (p *Pair) Takeover(ctx context.Context, stale bool) error { return p.pair.Takeover(ctx, stale) }

func (p *Pair) Forks() (list []api.Fork, err error) {
	forks, err := p.pair.Forks()
	for _, f := range forks {
		list = append(list, api.Fork{File: f.File, Time: f.At, Entries: f.Entries, First: f.First.String(), Last: f.Last.String(), Bytes: f.Size})
	}
	return list, err
}

func (p *Pair) Ready() (bool, string) {
	st := p.pair.Status()
	switch {
	case st.Role == replica.Active:
		return false, "becoming active"
	case st.State == live.Paired && !st.PortUsable:
		return false, "standby, paired, but the link of the port is down, so it cannot take over"
	case st.State == live.Paired:
		return true, "standby, paired"
	}
	return false, "standby, " + st.State.String() + ": it may lack changes"
}

// afterPartner are the reasons of a manager that is active because its partner no longer is.
var afterPartner = []replica.Why{replica.WhySilence, replica.WhyHandover, replica.WhyStale}

func (p *Pair) HA() api.HA {
	st := p.pair.Status()
	p.mu.Lock()
	answering := p.answering
	p.mu.Unlock()
	h := api.HA{Mode: "pair", State: st.State.String(), Why: st.Why.String(), Since: st.Since}
	if st.Role != replica.Active {
		h.Stale = lastSign(st.Signs).Seconds()
		if st.PeerRole == replica.Active {
			h.ActiveAt = p.cfg.Active
		}
	} else if slices.Contains(afterPartner, st.Why) {
		h.Before = &api.Before{At: p.cfg.Active, Until: st.Since}
	}
	h.Pair = &api.Pair{
		PortGUID: st.Me.String(), LID: int(st.LID), Term: st.Term.Number, TermOwner: st.Term.Writer(), Entry: st.Last.Number,
		Peer: st.Address, PeerGUID: st.Peer.String(), PeerAPI: p.cfg.Active, PeerLID: int(st.PeerLID), PeerActive: st.PeerRole == replica.Active,
		PeerTerm: st.PeerTerm.Number, PeerEntry: st.PeerLast.Number,
		Priority: int(st.Priority), PeerPriority: st.PeerPriority,
		LagEntries: st.LagEntries, LagSeconds: st.LagTime.Seconds(),
		Synced: seconds(lastSync(&st)),
		Stream: seconds(st.Signs[replica.Stream]), Fabric: seconds(st.Signs[replica.Fabric]),
		Warm: st.Warm, Connected: st.Connected, Serving: st.Serving, StreamError: st.StreamError,
		PortUsable: st.PortUsable, SMOfPort: int(st.SMOfPort), FloatingLID: int(st.Floats), Held: st.Held,
		Entries: st.Entries, Takeovers: st.Takeovers, Answering: answering.Seconds(), Forks: st.Forks, ForksDeleted: st.ForksDeleted, DiskError: st.LastError,
		Differ: st.Differ,
	}
	if st.Master != 0 && st.State != live.Paired {
		h.Pair.Master, h.Pair.MasterText = st.Master.String(), live.OtherMaster(st.Me, st.Peer, st.Master)
	}
	if st.Entries > 0 {
		h.Pair.Commit = (st.Commit / time.Duration(st.Entries)).Seconds()
	}
	return h
}

// lastSync is how long ago the standby is known to have had all entries, -1 s if it is not known.
func lastSync(st *live.Status) time.Duration {
	heard := lastSign(st.Signs)
	switch {
	case heard < 0:
		return heard
	case st.LagEntries > 0:
		return max(heard, st.LagTime)
	case st.State == live.Copying || st.State == live.Starting:
		return -time.Second // what it lacks is not known
	}
	return heard
}

// lastSign is how long ago the partner was heard on any channel, -1 s if it was not.
func lastSign(signs [2]time.Duration) time.Duration {
	last := -time.Second
	for _, s := range signs {
		if s >= 0 && (last < 0 || s < last) {
			last = s
		}
	}
	return last
}

// seconds is -1 for any negative time.
func seconds(t time.Duration) float64 {
	if t < 0 {
		return -1
	}
	return t.Seconds()
}

// haStates are the values of heddle_ha_state.
var haStates = []string{
	live.Starting.String(), live.Paired.String(), live.Alone.String(), live.Waiting.String(), live.Copying.String(), live.Stale.String(),
}

// reasons are the values of heddle_ha_takeovers_total.
var reasons = map[replica.Why]string{
	replica.WhySilence: "silence", replica.WhyHandover: "handover", replica.WhyStale: "stale", replica.WhyAsked: "asked",
	replica.WhyWasAlone: "was_alone", replica.WhyNewer: "newer",
}

// heardTime is how long ago a partner may have been heard that counts as up.
const heardTime = time.Second

func (p *Pair) Metrics() prometheus.Gatherer {
	return metrics.NewHA(func() metrics.HA {
		st := p.pair.Status()
		x := metrics.HA{
			State: st.State.String(), States: haStates, Active: st.Role == replica.Active, Term: st.Term.Number,
			Entries: st.Entries, LagEntries: st.LagEntries, Lag: st.LagTime, Commit: st.Commit,
			PeerUp: map[string]bool{}, Synced: lastSync(&st), Differ: len(st.Differ),
			Relayed: uint64(st.Relayed.Passed), RelayAnswers: st.RelayGiven,
			RelayDropped: []metrics.Count{
				{Labels: []string{"busy"}, N: st.RelayFull},
				{Labels: []string{"full"}, N: uint64(st.Relayed.Refused)},
				{Labels: []string{"late"}, N: uint64(st.Relayed.Late)},
			},
		}
		for c, name := range map[replica.Channel]string{replica.Stream: "stream", replica.Fabric: "fabric"} {
			s := st.Signs[c]
			x.PeerUp[name] = s >= 0 && s <= heardTime
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		x.Takeover = p.answering
		for why, reason := range reasons {
			x.Takeovers = append(x.Takeovers, metrics.Count{Labels: []string{reason}, N: p.takeovers[why]})
		}
		slices.SortFunc(x.Takeovers, func(a, b metrics.Count) int { return cmp.Compare(a.Labels[0], b.Labels[0]) })
		return x
	})
}
