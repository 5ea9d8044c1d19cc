package live

import (
	"context"
	"log/slog"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/replica"
	"heddle/replica/relay"
	"heddle/store/journal"
)

// State is the state of a manager in the pair.
type State uint8

// States.
const (
	Starting State = iota // Run has not begun, or the disk does not answer
	Paired                // both have every entry that counts
	Alone                 // active; entries count without the peer
	Waiting               // active; entries wait for the peer, or for the permission to go alone
	Copying               // standby; it copies the active manager's journal
	Stale                 // standby; it may lack entries
)

// String implements fmt.Stringer.
func (s State) String() string {
	return [...]string{"starting", "paired", "alone", "waiting", "copying", "stale"}[s]
}

// Status is what a Pair shows. It is a copy.
type Status struct {
	Role  replica.Role
	State State
	Why   replica.Why // why it has this role; 0 since the start
	Since time.Time   // when it got it
	Term  journal.Term
	Last  journal.Mark // last durable entry
	// Me and Peer are the port GUIDs.
	Me, Peer ib.GUID
	// Address is the peer's, as configured, and Listening the address on which Run accepts its
	// streams. Connected: this manager's stream, on which it copies the peer's journal, is open;
	// Serving: the peer's stream to this manager is.
	Address, Listening string
	Connected, Serving bool
	// StreamError is why the last attempt at a stream failed; "" if it did not.
	StreamError string
	// PeerLID is where signs in band are sent; 0: not known yet.
	PeerLID ib.LID
	// Signs is how long ago the last sign came on each channel; negative: none since the start.
	Signs [2]time.Duration
	// Forged counts datagrams in band that looked like signs and were not authentic.
	Forged uint64
	// PeerRole, PeerTerm and PeerLast are those of the peer's last sign; zero without a sign.
	PeerRole replica.Role
	PeerTerm journal.Term
	PeerLast journal.Mark
	// Priority is this manager's in SMInfo, PeerPriority that of the peer, -1 if it is not known.
	Priority     uint8
	PeerPriority int
	// LagEntries is how many entries the standby of the two lacks, as far as this manager knows;
	// LagTime for how long it has lacked any.
	LagEntries uint64
	LagTime    time.Duration
	// PortUsable: management packets pass the link of this manager's port. SMOfPort is the LID
	// that it names as its SM.
	PortUsable bool
	SMOfPort   ib.LID
	// LID is that of this manager's port; 0: it has none, or it is not known yet.
	LID ib.LID
	// Warm: this manager has the snapshot of the active one, and can answer from it.
	Warm bool
	// Floats is the LID of the manager if it floats between the two ports, else 0.
	Floats ib.LID
	// Master is another manager that the port names and that answers as master; 0: none is known.
	// Held: because of it this standby does not take over.
	Master ib.GUID
	Held   bool
	// Counts since the start.
	Entries   uint64        // entries that count, of this manager's terms
	Commit    time.Duration // time that they took, from the call of Apply, summed up
	Takeovers uint64        // times that this manager became active, but for the first term of a state
	Relayed   relay.Counts  // queries that came after handovers
	// RelayGiven is how many answers to those went to the port, RelayFull how many were dropped
	// because the port was full.
	RelayGiven, RelayFull uint64
	Forks                 int // fork files in ForkDir
	// ForksDeleted is how many were deleted since the start, because there were too many.
	ForksDeleted int
	// Differ are the settings that the two managers should have alike and do not, by name; none also if the peer does
	// not say.
	Differ    []string
	LastError string // of the disk; "" if there was none
}

// Status returns the status of the pair.
func (p *Pair) Status() Status {
	p.mu.Lock()
	st := p.st
	p.mu.Unlock()
	st.Priority = p.Priority()
	x := &p.relaying
	x.mu.Lock()
	st.Relayed = x.relay.Counts()
	x.mu.Unlock()
	st.RelayGiven, st.RelayFull = x.given.Load(), x.full.Load()
	st.Warm = st.Role == replica.Standby && p.isWarm()
	return st
}

// Priority is that of this manager in SMInfo.
func (p *Pair) Priority() uint8 { return uint8(p.priority.Load()) }

// SetPriority changes the priority, 0 to 15: in the answers of a standby to SMInfo, in the
// comparison of another master by a standby that may lack entries, and in the signs to the peer. It
// does not affect which of the two is active. The managers of a mastership get their priority
// elsewhere.
func (p *Pair) SetPriority(priority uint8) { p.priority.Store(uint32(priority)) }

func (p *Pair) set(f func(*Status)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.st)
}

// publish shows how the manager stands.
func (p *Pair) publish(now mad.Time) {
	v := p.core.View(now)
	var lag uint64
	switch {
	case v.Role == replica.Active && v.Acked > 0:
		lag = behind(v.Last, v.Acked)
	case v.Role == replica.Active:
		lag = behind(v.Last, v.Peer.Last.Number)
	case v.Peer.Active:
		lag = behind(v.Peer.Last, v.Last.Number)
	}
	switch {
	case lag == 0:
		p.lagSince = 0
	case p.lagSince == 0:
		p.lagSince = now
	}
	p.set(func(st *Status) {
		st.Role, st.Term, st.Last = v.Role, v.Term, v.Last
		st.State = stateOf(&v)
		st.Connected, st.Serving = p.streams.mine != nil, p.streams.theirs != nil
		st.PeerLID, st.Floats = p.band.peerLID(), p.known.floating()
		for ch, at := range p.heardAt {
			if at > 0 {
				st.Signs[ch] = now.Sub(at)
			}
		}
		st.PeerRole = replica.Standby
		if v.Peer.Active {
			st.PeerRole = replica.Active
		}
		st.PeerTerm, st.PeerLast, st.PeerPriority = v.Peer.Term, v.Peer.Last, int(v.Peer.Rank)-1
		st.LagEntries, st.LagTime = lag, 0
		if lag > 0 {
			st.LagTime = now.Sub(p.lagSince)
		}
		st.Master, st.Held = p.band.other.master(&p.band), v.Held != 0
		if look := &p.band.look; look.have {
			st.PortUsable, st.SMOfPort, st.LID = usable(&look.info), look.info.MasterSMLID, look.info.LID
		}
	})
}

// behind is how many entries a manager lacks whose last one has the number had.
func behind(last journal.Mark, had uint64) uint64 {
	if had >= last.Number {
		return 0
	}
	return last.Number - had
}

func stateOf(v *replica.View) State {
	switch {
	case !v.Ready:
		return Starting
	case v.Paired:
		return Paired
	case v.Alone:
		return Alone
	case v.Role == replica.Active:
		return Waiting
	case v.Copying:
		return Copying
	}
	return Stale
}

// notice logs what happened, and passes it on.
func (p *Pair) notice(n *replica.Notice) {
	level, text := slog.LevelInfo, ""
	switch n.Kind {
	case replica.NoticeActive:
		text = "this manager is active"
		if n.Why == replica.WhyStale || n.Why == replica.WhyAsked {
			level = slog.LevelWarn
		}
	case replica.NoticeStandby:
		level, text = slog.LevelWarn, "this manager is standby"
	case replica.NoticePaired:
		text = "both managers have all entries"
	case replica.NoticeAlone:
		level, text = slog.LevelWarn, "no spare: entries count on this manager alone"
	case replica.NoticeLeft:
		level, text = slog.LevelWarn, "this standby left the pairing and may lack entries"
	case replica.NoticeCopied:
		text = "the other manager's state was copied"
	case replica.NoticeDisk:
		level, text = slog.LevelError, "the disk failed"
	case replica.NoticeVersions:
		level, text = slog.LevelError, "the other manager has another version, so this one cannot copy from it, nor it from this one"
	case replica.NoticePort:
		level, text = slog.LevelError, "this manager's port does not answer"
	case replica.NoticeHeld:
		level, text = slog.LevelWarn, "this manager does not take over: "+OtherMaster(p.cfg.Rules.Me, p.cfg.Rules.Peer, n.Other)
		if p.core.Role() == replica.Active {
			level, text = slog.LevelWarn, OtherMaster(p.cfg.Rules.Me, p.cfg.Rules.Peer, n.Other)
		}
	}
	attrs := []slog.Attr{slog.String("last", n.Mark.String())}
	if n.Why != 0 {
		attrs = append(attrs, slog.String("why", n.Why.String()))
	}
	if n.Err != nil {
		attrs = append(attrs, slog.String("err", n.Err.Error()))
	}
	p.log.LogAttrs(context.Background(), level, text, attrs...)
	if p.cfg.OnNotice != nil {
		p.cfg.OnNotice(*n)
	}
}
