package interop

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/partition"
	"heddle/transport/ibsim"
)

// hostileEnv makes this test binary a host that sends nonsense: "SOCKET NODE SEED COUNT RATE TARGET".
// With a COUNT of 0 it only takes what it gets, until it is killed.
const hostileEnv = "INTEROP_HOSTILE"

// sendNonsense sends random and mutated MADs to the manager, RATE a second.
func sendNonsense() {
	var sock, node string
	var seed, count, rate int
	var target ib.LID
	fail := func(err error) {
		if err != nil {
			fmt.Println("FAILED", err)
			os.Exit(1)
		}
	}
	_, err := fmt.Sscan(os.Getenv(hostileEnv), &sock, &node, &seed, &count, &rate, (*uint16)(&target))
	fail(err)
	c, err := ibsim.Dial(context.Background(), ibsim.Options{SockName: sock, Node: node})
	fail(err)
	drain := func() { // it takes no notice of what it gets
		var p mad.Packet
		for c.Recv(&p) == nil {
		}
	}
	fmt.Println("READY")
	if count == 0 {
		drain()
		return
	}
	go drain()
	_, _ = fmt.Scanln() // nothing is sent before all are there
	rng := rand.New(rand.NewPCG(uint64(seed), 11))
	began := time.Now()
	for i := range count {
		to, qp, m := nonsense(rng, target)
		m.SetTID(uint64(i))
		fail(c.Send(&mad.Packet{Addr: to, LocalQP: qp, Data: m[:]}))
		if ahead := time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(rate))); ahead > time.Millisecond {
			<-time.After(ahead)
		}
	}
	fmt.Println("SENT", count, "in", time.Since(began).Round(time.Millisecond))
}

// hostileSM is the LID of the manager, and of hosts the LIDs around it.
const hostileSM ib.LID = 1

// nonsense is what a hostile host sends: requests of the SA about what others have, with keys
// that everybody knows; beginnings of RMPP transfers; SMPs; traps in any name; anything.
func nonsense(rng *rand.Rand, target ib.LID) (to mad.Addr, qp uint32, m ib.MAD) {
	to, qp = mad.Addr{LID: target, QP: 1}, 1
	lid := func() ib.LID { return ib.LID(rng.IntN(24)) }
	host := func() ib.GID { return gid(ib.GUID(0x100001 + 2*rng.IntN(16))) }
	bcast := partition.Broadcast(partition.DefaultKey).MGID
	methods := []ib.Method{ib.MethodGet, ib.MethodGetTable, ib.MethodSet, ib.MethodDelete}
	method := methods[rng.IntN(len(methods))]
	switch rng.IntN(8) {
	case 0:
		sa.New(&m, method, sa.AttrMCMemberRecord, 0, needed)
		r := sa.MCMemberRecord{MGID: bcast, PortGID: host(), JoinState: uint8(rng.IntN(16))}
		if rng.IntN(2) == 0 {
			r.MGID = hostileGroup
		}
		r.Put(sa.Data(&m))
	case 1:
		sa.New(&m, method, sa.AttrServiceRecord, 0, 7)
		r := sa.ServiceRecord{ServiceID: uint64(rng.IntN(4)), ServiceGID: host(), ServicePKey: 0xFFFF, ServiceLease: uint32(rng.IntN(3))}
		r.Put(sa.Data(&m))
	case 2:
		sa.New(&m, method, sa.AttrGUIDInfoRecord, 0, 3|1<<5)
		r := sa.GUIDInfoRecord{LID: lid()}
		r.GUIDInfo[1] = ib.GUID(0x100001 + rng.IntN(64))
		r.Put(sa.Data(&m))
	case 3: // the beginning of a transfer, or its middle
		sa.New(&m, ib.MethodGetMulti, sa.AttrMultiPathRecord, 0, sa.CompMask(rng.Uint64()))
		m[24], m[25], m[26] = sa.RMPPVersion, byte(1+rng.IntN(4)), byte(1|rng.IntN(2)<<1)
		binary.BigEndian.PutUint32(m[28:], uint32(1+rng.IntN(3)))
		binary.BigEndian.PutUint32(m[32:], uint32(rng.IntN(1<<20)))
	case 4:
		smp.NewLID(&m, ib.MethodTrap, smp.AttrNotice, 0, 0)
		n := smp.Notice{IsGeneric: true, Producer: uint32(rng.IntN(4)), IssuerLID: lid(), TrapNumber: []uint16{
			smp.TrapPortStateChange, smp.TrapLocalPhyErrors, smp.TrapBufferOverrun, smp.TrapFlowCtlWatchdog, smp.TrapLocalChange,
			smp.TrapSystemImageGUID, smp.TrapBadMKey, smp.TrapBadPKey, smp.TrapBadQKey, smp.TrapBadPKeySwitchPort, uint16(rng.Uint32()),
		}[rng.IntN(11)]}
		d := smp.DetailPort{LID: lid(), PortNum: uint8(rng.IntN(9))}
		d.Put(&n.DataDetails)
		n.Put(smp.Data(&m))
		to.QP, qp = 0, 0
	case 5: // SMPs, at anybody, with any key
		attrs := []ib.AttrID{smp.AttrNodeInfo, smp.AttrPortInfo, smp.AttrSMInfo, smp.AttrPKeyTable, smp.AttrGUIDInfo}
		path := make([]byte, 1+rng.IntN(5))
		for i := range path[1:] {
			path[1+i] = byte(1 + rng.IntN(8))
		}
		smp.NewDR(&m, methods[2*rng.IntN(2)], attrs[rng.IntN(len(attrs))], uint32(rng.IntN(3)), ib.MKey(rng.Uint64()), path)
		to, qp = mad.Addr{LID: ib.LIDPermissive}, 0
	case 6:
		sa.New(&m, method, ib.AttrID(rng.IntN(0x40)), 0, sa.CompMask(rng.Uint64()&rng.Uint64()))
		for i := sa.DataOffset; i+8 <= len(m); i += 8 {
			binary.LittleEndian.PutUint64(m[i:], rng.Uint64()&rng.Uint64())
		}
	default:
		for i := 0; i+8 <= len(m); i += 8 {
			binary.LittleEndian.PutUint64(m[i:], rng.Uint64())
		}
		m[0], m[1] = 1, []byte{byte(ib.ClassSA), byte(ib.ClassSubnLID), byte(rng.Uint32())}[rng.IntN(3)]
	}
	if qp == 1 && rng.IntN(3) == 0 {
		binary.BigEndian.PutUint64(m[36:], []uint64{1, 1, rng.Uint64()}[rng.IntN(3)])
	}
	if rng.IntN(4) == 0 { // mutated
		for range 1 + rng.IntN(4) {
			m[2+rng.IntN(len(m)-2)] ^= 1 << rng.IntN(8)
		}
	}
	return to, qp, m
}

// hostileGroup is a group that honest hosts have made.
var hostileGroup = mustGID("ff12:a01c::77")

// TestHostileSenders: five hosts send 40,000 random and mutated MADs each, 5,000 per
// second, to a manager that also serves a polite client. The polite client gets its
// answers after at most one retry, its p99 grows at most by a factor of 4 (against the worst of no
// flood and of the same flood at another host, which shows what the senders take from the machine),
// registrations of honest hosts stay, and the log stays short.
func TestHostileSenders(t *testing.T) {
	need.Long(t)
	b := testNet{name: "hostile", gen: []string{"xgft", "2", "4,4", "1,2"}}.build(t)
	sim, env := b.simulate(t)
	sock := strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
	addr := need.Addr(t)
	token := filepath.Join(b.dir, "token")
	sm := start(t, b.dir, nil, heddle, "sm", "--port", "ibsim:"+b.cas[0]+"@"+sock+",rmpp=on", "--api", addr, "--token-file", token,
		"--state", filepath.Join(b.dir, "state"), "--m-key", "0x5eC4e7", "--m-key-protect", "1")
	sm.await("SUBNET UP\n", 0, upTime)
	if lid := ask(t, sock, b.cas[0]).smLID(); lid != hostileSM {
		t.Fatalf("the manager has LID %v, want %v", lid, hostileSM)
	}
	var honest []*asker
	for i := range 4 {
		a := ask(t, sock, b.cas[12+i])
		honest = append(honest, a)
		own := gid(a.c.PortGUID())
		for _, g := range []ib.GID{partition.Broadcast(partition.DefaultKey).MGID, hostileGroup} {
			mask := needed | sa.MCMemberCompQKey | sa.MCMemberCompTClass | sa.MCMemberCompPKey | sa.MCMemberCompSL | sa.MCMemberCompFlowLabel
			if g != hostileGroup {
				mask = needed
			}
			if _, st := a.member(hostileSM, ib.MethodSet, mask, 0, &sa.MCMemberRecord{MGID: g, PortGID: own, JoinState: sa.JoinFull, PKey: 0xFFFF}); st != 0 {
				t.Fatalf("join: %v", st)
			}
		}
		var m ib.MAD
		sa.New(&m, ib.MethodSet, sa.AttrServiceRecord, 0, 7)
		r := sa.ServiceRecord{ServiceID: uint64(i), ServiceGID: own, ServicePKey: 0xFFFF, ServiceLease: sa.ServiceLeaseForever}
		r.Put(sa.Data(&m))
		if st := a.exchange(mad.Addr{LID: hostileSM, QP: 1}, 1, &m).Status(); st != 0 {
			t.Fatalf("service: %v", st)
		}
	}
	owned := func() (list []string) { // what honest hosts have
		var groups []struct {
			MGID    string
			Members []struct {
				PortGID   string   `json:"port_gid"`
				JoinState []string `json:"join_state"`
				Proxy     bool
			}
		}
		var services []struct {
			ID    string `json:"service_id"`
			GID   string
			Lease uint32 `json:"lease_seconds"`
		}
		fetch(t, addr, "/v1/groups", &groups)
		fetch(t, addr, "/v1/services", &services)
		mine := func(g string) bool {
			return slices.ContainsFunc(honest, func(a *asker) bool { return gid(a.c.PortGUID()).String() == g })
		}
		for _, g := range groups {
			for _, m := range g.Members {
				if mine(m.PortGID) && (g.MGID == hostileGroup.String() || g.MGID == partition.Broadcast(partition.DefaultKey).MGID.String()) {
					list = append(list, fmt.Sprint(g.MGID, m))
				}
			}
		}
		for _, s := range services {
			if id := s.ID[len(s.ID)-1]; mine(s.GID) && s.GID == gid(honest[(id-'0')%4].c.PortGUID()).String() {
				list = append(list, fmt.Sprint(s))
			}
		}
		slices.Sort(list)
		return list
	}
	before := owned()
	if len(before) != 12 {
		t.Fatalf("honest hosts have %d things: %v", len(before), before)
	}
	polite := &politeClient{t: t, to: mad.Addr{LID: hostileSM, QP: 1}}
	if err := polite.dial(sock, b.cas[11]); err != nil {
		t.Fatal(err)
	}
	const queries = 1500
	calm := polite.ask(queries, 5*time.Millisecond)
	// The senders, the simulator and the client share processors with the manager. What that costs
	// the client shows a flood at a host that takes no notice of it.
	cutOff := ask(t, sock, b.cas[10])
	elsewhere := cutOff.ownLID()
	cutOff.c.Close()
	flood := func(target ib.LID) politeFigures {
		host := func(i, count int) program {
			p := start(t, b.dir, []string{hostileEnv + "=" + fmt.Sprint(sock, " ", b.cas[i], " ", i, " ", count, " 5000 ", uint16(target))}, os.Args[0])
			p.await("READY\n", 0, upTime)
			return p
		}
		if target != hostileSM {
			defer host(10, 0).Kill()
		}
		var senders []program
		for i := range 5 {
			senders = append(senders, host(1+i, 40_000))
		}
		manager, fabric := cpuTime(t, sm.Pid()), cpuTime(t, sim.Pid())
		for _, s := range senders {
			fmt.Fprintln(s.In)
		}
		f := polite.ask(queries, 5*time.Millisecond)
		t.Logf("flood at LID %d: %v; manager %v, simulator %v of the processor", target, f, cpuTime(t, sm.Pid())-manager, cpuTime(t, sim.Pid())-fabric)
		for _, s := range senders {
			s.await("SENT .*\n", 0, time.Minute)
			s.Kill()
		}
		return f
	}
	machine := flood(elsewhere)
	logged := strings.Count(sm.Output(), "\n")
	flooded := flood(hostileSM)
	rest := polite.ask(200, 5*time.Millisecond)
	lines := strings.Count(sm.Output(), "\n") - logged
	kinds := map[string]int{}
	for _, m := range regexp.MustCompile(`kind=(\w+)`).FindAllStringSubmatch(sm.Output(), -1) {
		kinds[m[1]]++
	}
	t.Logf("lines by kind: %v", kinds)
	t.Logf("calm: %v; flooded: %v; after: %v; %d lines logged", calm, flooded, rest, lines)
	if calm.lost+flooded.lost+rest.lost > 0 {
		t.Errorf("queries that were repeated once are lost: %d, %d during the flood, %d after it", calm.lost, flooded.lost, rest.lost)
	}
	if flooded.p99 > 4*max(calm.p99, rest.p99, machine.p99) {
		t.Errorf("p99 is %v during the flood, %v before it, %v after it and %v during one at another host", flooded.p99, calm.p99, rest.p99, machine.p99)
	}
	if lines > 2000 {
		t.Errorf("the log grew by %d lines", lines)
	}
	after := owned()
	for _, x := range before { // what strangers registered in the name of others comes on top
		if !slices.Contains(after, x) {
			t.Errorf("an honest host had %s; now there is\n%s", x, strings.Join(after, "\n"))
		}
	}
	if resp, err := http.Get("http://" + addr + "/readyz"); err != nil || resp.StatusCode != 200 {
		t.Errorf("readyz: %v, %v", resp, err)
	}
	_ = sm.stop(syscall.SIGINT)
}

func fetch(t *testing.T, addr, path string, v any) {
	t.Helper()
	resp, err := http.Get("http://" + addr + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		t.Fatalf("%s: %v: %s", path, err, b)
	}
}

// politeClient asks for a path at a time, and repeats what is not answered in a second once.
type politeClient struct {
	t   *testing.T
	c   *ibsim.Conn
	to  mad.Addr
	tid uint64
	got chan uint64
}

type politeFigures struct {
	p99, max       time.Duration // of answers, from the first try
	repeated, lost int
}

func (f politeFigures) String() string {
	return fmt.Sprintf("p99 %v, most %v, %d repeated, %d lost", f.p99, f.max, f.repeated, f.lost)
}

func (k *politeClient) dial(sock, node string) (err error) {
	if k.c, err = ibsim.Dial(context.Background(), ibsim.Options{SockName: sock, Node: node}); err != nil {
		return err
	}
	k.t.Cleanup(func() { k.c.Close() })
	k.got = make(chan uint64, 64)
	go func() {
		var p mad.Packet
		for k.c.Recv(&p) == nil {
			if m := (*ib.MAD)(p.Data[:ib.MADLen]); p.Status == mad.Received && m.Class() == ib.ClassSA && m.Method().IsResponse() && m.Status() == 0 {
				k.got <- m.TID() & 0xFFFFFFFF
			}
		}
	}()
	return nil
}

func (k *politeClient) ask(n int, pause time.Duration) (f politeFigures) {
	var took []time.Duration
	for i := range n {
		var m ib.MAD
		sa.New(&m, ib.MethodGet, sa.AttrPathRecord, 0, sa.PathCompSLID|sa.PathCompDLID|sa.PathCompNumbPath)
		r := sa.PathRecord{SLID: hostileSM, DLID: ib.LID(2 + i%10), NumbPath: 1}
		r.Put(sa.Data(&m))
		k.tid++
		m.SetTID(k.tid)
		began := time.Now()
		if try := k.try(&m); try == 0 {
			f.lost++
		} else {
			f.repeated += try - 1
			took = append(took, time.Since(began))
		}
		<-time.After(pause - time.Since(began))
	}
	slices.Sort(took)
	if len(took) > 0 {
		f.p99, f.max = took[len(took)*99/100], took[len(took)-1]
	}
	return f
}

// try is in which try a request was answered, 0 if in none.
func (k *politeClient) try(m *ib.MAD) int {
	for try := 1; try <= 2; try++ {
		if err := k.c.Send(&mad.Packet{Addr: k.to, LocalQP: 1, Data: m[:]}); err != nil {
			k.t.Fatal(err)
		}
		late := time.After(time.Second)
	wait:
		for {
			select {
			case tid := <-k.got:
				if tid == m.TID()&0xFFFFFFFF {
					return try
				}
			case <-late:
				break wait
			}
		}
	}
	return 0
}

// cpuTime is what a process has used of the processor.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	var user, sys int
	if _, err := fmt.Sscan(f[11]+" "+f[12], &user, &sys); err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+sys) * 10 * time.Millisecond
}
