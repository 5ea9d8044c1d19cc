package rc

import "heddle/ib"

// MigrationState is that of automatic path migration (IBA §17.2.8).
type MigrationState uint8

// The states. Packets have MigReq set in StateMigrated alone.
const (
	StateMigrated MigrationState = iota // no alternate path is in use
	StateRearm                          // an alternate path is loaded; the peer is not known to have rearmed
	StateArmed                          // both ends have one, and either may migrate
)

// String prints "ARMED".
func (s MigrationState) String() string { return [...]string{"MIGRATED", "REARM", "ARMED"}[s] }

// migration is the state of path migration. Both ends must load an alternate path:
// Rearm becomes Armed when a packet comes without MigReq, which the peer sends in
// Rearm and Armed alone.
type migration struct {
	state     MigrationState
	alternate Path
}

// Migration is the state of path migration.
func (q *QP) Migration() MigrationState { return q.apm.state }

// Alternate is the alternate path that was loaded last.
func (q *QP) Alternate() Path { return q.apm.alternate }

// Rearm loads an alternate path and takes the path migration to Rearm (IBA
// table 91: RTS to RTS and SQD to SQD). In Armed it starts anew.
func (q *QP) Rearm(p Path) error {
	if err := q.must(ReadyToReceive, ReadyToSend, SendQueueDrain); err != nil {
		return err
	}
	q.apm.alternate, q.apm.state = p, StateRearm
	return nil
}

// Migrate uses the alternate path from the next packet on. It must be Armed. The
// peer follows when it receives a packet with MigReq.
func (q *QP) Migrate(now Time) error {
	if err := q.must(ReadyToSend, SendQueueDrain); err != nil {
		return err
	}
	if q.apm.state != StateArmed {
		return ErrNotArmed
	}
	q.migrate(now)
	return nil
}

// migrate changes the paths. What is under way on the old one may be lost, so an
// acknowledgment is asked for with the next packet.
func (q *QP) migrate(now Time) {
	q.path, q.apm.alternate = q.apm.alternate, q.path
	q.apm.state = StateMigrated
	q.Count.Migrations++
	q.req.ask = true
	q.owner.Happened(q, Migrated)
}

// checkPath checks the source of a packet, and follows the peer's migration (IBA
// §17.2.8.1.3). A packet from another LID than the peer's is dropped.
func (q *QP) checkPath(now Time, p *Packet, slid ib.LID) bool {
	switch q.apm.state {
	case StateRearm:
		if slid != q.path.DLID {
			return false
		}
		if !p.MigReq {
			q.apm.state = StateArmed
			q.owner.Happened(q, PathArmed)
		}
	case StateArmed:
		if p.MigReq {
			if slid != q.apm.alternate.DLID {
				return false
			}
			q.migrate(now)
			return q.state < SendQueueError && q.state >= ReadyToReceive
		}
		fallthrough
	case StateMigrated:
		return slid == q.path.DLID
	}
	return true
}
