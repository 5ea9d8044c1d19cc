package interop

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/transport/ibsim"
)

// joiner joins groups from a host, one after the other, and leaves them a while later. The answer to a
// leave says whether the join was there.
type joiner struct {
	*registrar
	every               time.Duration // the time between two joins, at least
	left, lost, unknown int
	asking              uint64 // the group that it joins; guarded by mu
}

// asked is the last group that it has asked for.
func (j *joiner) asked() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.asking
}

// joinedAtOnce is how many groups a joiner is in.
const joinedAtOnce = 100

// joiner connects a host; run has it join.
func (b *built) joiner(t *testing.T, sock, host string) *joiner {
	t.Helper()
	c, err := ibsim.Dial(context.Background(), ibsim.Options{SockName: sock, Node: host})
	if err != nil {
		t.Fatal(err)
	}
	r := &registrar{t: t, c: c, patience: 200 * time.Millisecond, answers: make(chan *ib.MAD, 1000), gid: ib.MakeGID(ib.DefaultSubnetPrefix, b.portGUID(host))}
	j := &joiner{registrar: r}
	go r.receive()
	t.Cleanup(r.end)
	return j
}

// run joins and leaves until the end.
func (j *joiner) run() {
	var in []uint64
	next := time.NewTimer(0)
	defer next.Stop()
	for id := uint64(1); !j.stop.Load(); id++ {
		<-next.C
		next.Reset(j.every)
		j.mu.Lock()
		j.asking = id
		j.mu.Unlock()
		if a := j.member(ib.MethodSet, id); a != nil && a.Status() == 0 {
			j.mu.Lock()
			j.acked = append(trimmed(j.acked), ackedService{id, time.Now()})
			j.mu.Unlock()
			in = append(in, id)
		}
		if len(in) > joinedAtOnce {
			j.leave(in[0])
			in = in[1:]
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.acked = j.acked[:0] // those that are left
	for _, id := range in {
		j.acked = append(j.acked, ackedService{id: id})
	}
}

// trimmed is the newer half of a list that has grown long.
func trimmed(list []ackedService) []ackedService {
	const most = 100_000
	if len(list) < most {
		return list
	}
	return slices.Clone(list[most/2:])
}

// leave leaves a group, and notes whether the host was a member.
func (j *joiner) leave(id uint64) {
	for tried := false; ; tried = true {
		a := j.member(ib.MethodDelete, id)
		switch {
		case a != nil && a.Status() == 0:
			j.left++
			return
		case a != nil && a.Status() == ib.StatusBusy:
			continue // nothing was done
		case a == nil && !j.stop.Load():
			continue // it may have been done
		case a != nil && !tried:
			j.lost++
		default:
			j.unknown++
		}
		return
	}
}

// member sends a join or a leave to the manager that the host's port names; nil: there was no answer.
func (j *joiner) member(how ib.Method, id uint64) *ib.MAD {
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, smp.AttrPortInfo, 1, 0, nil)
	var pi smp.PortInfo
	if a := j.exchange(mad.Addr{LID: ib.LIDPermissive}, 0, &m); a == nil || pi.Decode(smp.Data(a)) != nil {
		return nil
	}
	r := sa.MCMemberRecord{PortGID: j.gid, QKey: 0x0B1B, PKey: ib.PKeyDefaultFull, JoinState: 1}
	copy(r.MGID[:], []byte{0xff, 0x12, 0x40, 0x1b, 0xff, 0xff})
	binary.BigEndian.PutUint64(r.MGID[8:], id)
	mask := sa.MCMemberCompMGID | sa.MCMemberCompPortGID | sa.MCMemberCompJoinState
	if how == ib.MethodSet {
		mask |= sa.MCMemberCompQKey | sa.MCMemberCompTClass | sa.MCMemberCompPKey | sa.MCMemberCompSL | sa.MCMemberCompFlowLabel
	}
	sa.New(&m, how, sa.AttrMCMemberRecord, 0, mask)
	r.Put(sa.Data(&m))
	return j.exchange(mad.Addr{LID: pi.MasterSMLID, QP: 1}, 1, &m)
}

// TestQuorumKilled: kill -9 of the master of three and of a member of etcd in turn, while many hosts join and leave.
// Nothing that was acknowledged is lost, no LID moves, and no P_Key changes. With HEDDLE_LONG it is done 100 times under
// the load of TestPairKilled. The member that is killed is the leader every other time.
func TestQuorumKilled(t *testing.T) {
	kills, size := killSizes(4)
	b := size.net.build(t)
	_, env := b.simulate(t)
	sock := strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
	x := newTrio(t, &b, sock)
	for i := range 3 {
		x.start(i)
	}
	k := newKillLoad(t, &b, sock, size, x.addr[x.settled(-1)])
	k.managers = func() []program { return x.prog[:] }
	for i := range kills {
		master := x.settled(-1)
		if i%2 == 0 {
			k.round(i/2, "kill -9 of the master", func() { x.prog[master].stop(syscall.SIGKILL) }, func() { x.settled(master) })
			x.start(master)
			continue
		}
		member, what := x.cluster.AwaitLeader(), "kill -9 of etcd's leader"
		if i%4 == 3 {
			member, what = (member+1)%3, "kill -9 of another member of etcd"
		}
		k.round(i/2, what, func() { x.cluster.Kill(member) }, func() {
			if now := x.settled(-1); now != master {
				t.Errorf("manager %d is master because a member of etcd ended, and %d was", now, master)
			}
		})
		x.cluster.Restart(member)
	}
	k.report()
}
