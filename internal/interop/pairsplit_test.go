package interop

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"heddle/api"
	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/store"
	"heddle/store/boltdb"
	"heddle/store/journal"
)

// wires pass the streams of two managers, and can be cut.
type wires struct {
	mu    sync.Mutex
	off   bool              // guarded by mu
	conns map[net.Conn]bool // guarded by mu
}

func newWires() wires { return wires{conns: map[net.Conn]bool{}} }

// wire listens for one of them, and returns its port.
func (w *wires) wire(t *testing.T, to int) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); w.cut(true) })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", to))
			w.mu.Lock()
			if err != nil || w.off {
				in.Close()
				if out != nil {
					out.Close()
				}
			} else {
				w.conns[in], w.conns[out] = true, true
				for _, x := range [][2]net.Conn{{in, out}, {out, in}} {
					go func() {
						_, _ = io.Copy(x[0], x[1])
						x[0].Close()
						x[1].Close()
					}()
				}
			}
			w.mu.Unlock()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

func (w *wires) cut(off bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.off = off
	if off {
		for c := range w.conns {
			c.Close()
		}
		clear(w.conns)
	}
}

// services are those of registrars in records, by the GID of their port.
func services(have map[ib.GID]map[uint64]bool, records []store.Record) {
	for _, r := range records {
		_, name, ok := bytes.Cut(r.Value, []byte("service "))
		if r.Table != store.TableServices || len(r.Key) < 24 || !ok {
			continue
		}
		name, _, _ = bytes.Cut(name, []byte{0})
		id, err := strconv.ParseUint(string(name), 10, 64)
		if err != nil {
			continue
		}
		g := ib.GID(r.Key[8:24])
		if have[g] == nil {
			have[g] = map[uint64]bool{}
		}
		have[g][id] = true
	}
}

// forkedServices are those in a fork file.
func forkedServices(t *testing.T, name string) map[ib.GID]map[uint64]bool {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	have := map[ib.GID]map[uint64]bool{}
	for len(raw) > 0 {
		e, n, err := journal.Decode(raw)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, o := range e.Ops {
			services(have, []store.Record{o.Record})
		}
		raw = raw[n:]
	}
	return have
}

// policyOf is the part whose policy a manager applies.
func policyOf(t *testing.T, addr string) int {
	t.Helper()
	var in api.Partitions
	getJSON(t, "http://"+addr+"/v1/partitions", &in)
	switch has := func(name string) bool { return strings.Contains(in.Config, "\n"+name+"=") }; {
	case has("A"):
		return 0
	case has("B"):
		return 1
	}
	t.Fatalf("neither part's policy is in force: %q", in.Config)
	return 0
}

var pkeyList = regexp.MustCompile(`0x[0-9a-f]{4}`)

// TestPairSplit: the subnet falls apart between the two managers of a pair, and so does their
// connection. Both serve their part, where hosts register, a host comes and gets a LID, and the policy
// changes. When the parts meet, the newer history counts: no LID is used twice, what the other one
// acknowledged is in its fork file, and no host has a P_Key that no policy gave it.
func TestPairSplit(t *testing.T) {
	need.Tool(t, "smpquery")
	b := testNet{name: "split", gen: []string{"mesh", "4x2"}}.build(t)
	// The first four hosts are in one part, the others in the other one. Of each: the manager, one that
	// registers, one from which the tools look, and one that comes.
	hosts := slices.Clone(b.cas)
	b.cas[1], b.cas[4] = hosts[4], hosts[1] // newPair takes the first two
	sim, env := b.simulate(t)
	sock := strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
	var between []string
	for i := range b.fab.Nodes {
		n := &b.fab.Nodes[i]
		for p := range n.Ports {
			if to := n.Ports[p].Peer; strings.HasPrefix(n.ID, "sw-1-") && to != fabric.NoRef() && strings.HasPrefix(b.fab.Nodes[to.Node].ID, "sw-2-") {
				between = append(between, fmt.Sprintf("%q[%d]", n.ID, p))
			}
		}
	}
	if len(between) != 2 {
		t.Fatalf("cables between the parts: %v", between)
	}
	links := func(way string, cables ...string) {
		for _, c := range cables {
			fmt.Fprintf(sim.In, "link %s %s\n", way, c)
		}
	}
	late := []string{fmt.Sprintf("%q[1]", hosts[3]), fmt.Sprintf("%q[1]", hosts[7])}
	links("down", late...)

	guid := func(i int) string { return b.portGUID(hosts[i]).String() }
	policies := map[string]string{
		"both": fmt.Sprintf("Default=0x7fff, ipoib : ALL=full ;\nTenant=0x0042 : %s=full, %s=full ;\n", guid(1), guid(5)),
		// Each part takes the tenant from the other one, and makes one of its own.
		"a": fmt.Sprintf("Default=0x7fff, ipoib : ALL=full ;\nTenant=0x0042 : %s=full ;\nA=0x0043 : %s=full, %s=full ;\n", guid(1), guid(2), guid(6)),
		"b": fmt.Sprintf("Default=0x7fff, ipoib : ALL=full ;\nTenant=0x0042 : %s=full ;\nB=0x0044 : %s=full, %s=full ;\n", guid(5), guid(2), guid(6)),
	}
	// given are the P_Keys of a policy by host; of the switches and others all have the default one.
	given := map[string]map[int][]string{
		"a": {1: {"0x8042"}, 2: {"0x8043"}, 6: {"0x8043"}},
		"b": {5: {"0x8042"}, 2: {"0x8044"}, 6: {"0x8044"}},
	}
	for name, text := range policies {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := newPair(t, &b, sock, "--partitions", filepath.Join(b.dir, "both"), "--token-file", "token-NUMBER")
	w := newWires()
	for i := range p.via {
		p.via[i] = w.wire(t, p.ports[i])
	}
	p.start(0)
	p.start(1)
	p.paired()
	clients := [2]*registrar{p.register(hosts[1], 400*time.Millisecond), p.register(hosts[5], 400*time.Millisecond)}
	for _, r := range clients {
		r.after(time.Now(), 10)
	}

	w.cut(true)
	links("down", between...)
	split := time.Now()
	for i, r := range clients {
		p.until(i, "active in its part", func(h api.HA) bool { return h.Active && h.State == "alone" })
		awaitState(t, &b, p.addr[i], "MASTER", upTime)
		r.after(time.Now(), 10)
		must(t, upTime, b.dir, nil, heddle, "ctl", "partitions", "apply", []string{"a", "b"}[i], "--api", p.addr[i], "--token-file", fmt.Sprint("token-", i))
	}
	links("up", late...)
	came := [2]int{}
	for i := range came {
		for end := time.Now().Add(need.Patience); came[i] == 0; {
			seen := b.seenLIDs(t, env, hosts[2+4*i])
			for k, l := range seen {
				if strings.HasPrefix(k, fmt.Sprint(ib.GUID(uint64(b.portGUID(hosts[3+4*i]))-1))) {
					came[i] = l
				}
			}
			if time.Now().After(end) {
				t.Fatalf("the host that came has no LID: %v", seen)
			}
		}
	}
	t.Logf("the hosts that came have LIDs %v", came)
	for _, r := range clients {
		r.after(time.Now(), 10)
	}

	terms := [2]uint64{p.ha(0).Pair.Term, p.ha(1).Pair.Term}
	// They meet. While they do, the sweeps of both may name their manager on the other one's port, and both
	// step back: who is active after that need not be the one whose history counts. At no time has a host a key that neither policy gives it.
	began := time.Now()
	links("up", between...)
	w.cut(false)
	var winner int // whose history counts
	look := func() (settled bool, why string) {
		lids := b.seenLIDs(t, env, hosts[2])
		byLID := map[int]string{}
		for k, l := range lids {
			if o, ok := byLID[l]; ok {
				return false, fmt.Sprintf("%s and %s have LID %d", o, k, l)
			}
			byLID[l] = k
		}
		for i := range hosts {
			g := ib.GUID(uint64(b.portGUID(hosts[i])) - 1)
			lid := lids[fmt.Sprintf("%v[1]", g)]
			if lid == 0 {
				return false, fmt.Sprintf("%s (%v) is not among %v", hosts[i], g, lids)
			}
			out, err := run(t, upTime, b.dir, append(env, "SIM_HOST="+hosts[2]), "ibsim-run", "smpquery", "pkeys", fmt.Sprint(lid))
			if err != nil {
				return false, fmt.Sprintf("P_Keys of %s, LID %d: %v: %s", hosts[i], lid, err, out)
			}
			have := map[string]bool{}
			for _, k := range pkeyList.FindAllString(out, -1) {
				if k != "0x0000" && k != "0xffff" && k != "0x7fff" {
					have[k] = true
				}
			}
			for k := range have {
				if !slices.Contains(given["a"][i], k) && !slices.Contains(given["b"][i], k) {
					t.Errorf("%s has P_Key %s, which no policy gives it", hosts[i], k)
				}
			}
			want := map[string]bool{}
			for _, k := range given[[]string{"a", "b"}[winner]][i] {
				want[k] = true
			}
			if !maps.Equal(have, want) {
				why = fmt.Sprintf("%s has P_Keys %v, and the policy of part %d gives it %v", hosts[i], have, winner, want)
			}
		}
		if len(lids) != 2*len(hosts) {
			why = fmt.Sprintf("of %d nodes these have LIDs: %v", 2*len(hosts), lids)
		}
		return why == "", why
	}
	for end := time.Now().Add(need.Patience); ; {
		winner = policyOf(t, p.addr[p.paired()])
		settled, why := look()
		if settled {
			break
		}
		if time.Now().After(end) {
			for i := range p.prog {
				t.Logf("manager %d: %+v\n%s", i, p.ha(i), p.said(i))
			}
			t.Fatalf("the parts do not grow together: %s", why)
		}
	}
	t.Logf("they are one %v after they met, with what manager %d had", time.Since(began), winner)
	if terms[winner] < terms[1-winner] {
		t.Errorf("manager %d has term %d, and the other one %d", winner, terms[winner], terms[1-winner])
	}
	for _, r := range clients {
		r.after(time.Now(), 10)
		r.end()
	}
	active := p.paired()
	for i := range p.prog {
		p.prog[i].stop(syscall.SIGKILL)
	}

	// All that was acknowledged is in the store of who is active, or in the loser's fork file.
	have, forked := map[ib.GID]map[uint64]bool{}, map[ib.GID]map[uint64]bool{}
	s, err := boltdb.Read(filepath.Join(b.dir, fmt.Sprint("state", active), boltdb.FileName))
	if err != nil {
		t.Fatal(err)
	}
	services(have, s.Records)
	names, err := filepath.Glob(filepath.Join(b.dir, fmt.Sprint("state", 1-winner), "fork-*.journal"))
	if err != nil || len(names) == 0 {
		t.Fatalf("the other one has no fork file: %v", err)
	}
	for _, name := range names {
		for g, ids := range forkedServices(t, name) {
			if forked[g] == nil {
				forked[g] = map[uint64]bool{}
			}
			maps.Copy(forked[g], ids)
		}
	}
	for i, r := range clients {
		here, there, lost := 0, 0, 0
		// The loser acknowledges what its own part asks for while the subnet is split, and what any host
		// asks for between the time when the parts meet and the time when one manager yields.
		since := began
		if i != winner {
			since = split
		}
		for _, a := range r.acked {
			switch {
			case have[r.gid][a.id]:
				here++
			case a.at.After(since) && forked[r.gid][a.id]:
				there++
			default:
				lost++
				t.Logf("part %d: service %d is nowhere; it was acknowledged %v after the parts met", i, a.id, a.at.Sub(began))
			}
		}
		t.Logf("part %d: %d services are stored, %d in the fork file", i, here, there)
		if lost > 0 {
			t.Errorf("part %d: %d of %d services that were acknowledged are lost", i, lost, len(r.acked))
		}
	}
}
