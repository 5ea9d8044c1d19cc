package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/ibtools"
	"heddle/internal/need"
	"heddle/internal/proc"
	"heddle/lab"
	"heddle/mad"
	"heddle/partition"
	"heddle/sa"
	"heddle/sim"
	"heddle/sim/ibsimd"
	"heddle/sim/live"
)

// corpusNet has every kind of end port; the manager is on H-1. The GUIDs are
// those that the files of the corpus name.
const corpusNet = `switchguid=0x51
Switch	8 "S-1"
[1]	"H-1"[1]
[2]	"H-2"[1]
[3]	"H-3"[1]
[4]	"R-1"[1]
[5]	"S-2"[5]

switchguid=0x52
Switch	8 "S-2"
[1]	"H-4"[1]
[5]	"S-1"[5]

caguid=0x10
Ca	1 "H-1"
[1](11)	"S-1"[1]

caguid=0x20
Ca	1 "H-2"
[1](21)	"S-1"[2]

caguid=0x30
Ca	1 "H-3"
[1](31)	"S-1"[3]

caguid=0x40
Ca	1 "H-4"
[1](41)	"S-2"[1]

rtguid=0x60
Rt	1 "R-1"
[1](61)	"S-1"[4]
`

var rewriteCorpus = flag.Bool("rewrite-corpus", false, "write the differences from OpenSM that TestPartitionCorpus finds into testdata/partitions")

// TestPartitionCorpus: a subnet manager is given each file of testdata/partitions,
// and files made at random, first OpenSM, then ours, on one fabric fresh from
// reset. What the ports hold then is equal: the P_Key tables with their indices,
// those of switch ports that face a host as sets, what these enforce, and all
// multicast groups with what their MCMemberRecords say. What differs on purpose
// is in a file of the same name that ends in .diff, and docs/sa.md has its reason.
//
// A line that begins with "#: opensm" has further options for OpenSM.
func TestPartitionCorpus(t *testing.T) {
	need.Tool(t, "opensm")
	need.Tool(t, "ibsim-run")
	files, err := filepath.Glob("testdata/partitions/*.conf")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".conf"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := differences(t, string(text))
			known := strings.TrimSuffix(file, ".conf") + ".diff"
			if *rewriteCorpus {
				writeDiff(t, known, got)
				return
			}
			want, err := os.ReadFile(known)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s:\n%s\ndiffers so from OpenSM (- is OpenSM):\n%swant:\n%s", file, text, got, want)
			}
		})
	}
	for _, seed := range need.Seeds(16, 400) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			text := randomConf(rand.New(rand.NewPCG(seed, 0x9a47)))
			if got := differences(t, text); got != "" {
				t.Errorf("%s\ndiffers so from OpenSM (- is OpenSM):\n%s", text, got)
			}
		})
	}
}

func writeDiff(t *testing.T, file, text string) {
	t.Helper()
	if text == "" {
		_ = os.Remove(file)
	} else if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// openFile is what OpenSM falls back to when it cannot read a file.
const openFile = "Default=0x7fff, ipoib : ALL=full ;"

// differences tells in what the two managers differ, line by line: "" if they do
// not. Of a file that we refuse OpenSM has to think as little: it then opens the
// fabric, where we change nothing.
func differences(t *testing.T, text string) string {
	t.Helper()
	var out strings.Builder
	theirs := opensmHolds(t, text)
	ours, err := weHold(t, text)
	if err != nil {
		open, oerr := weHold(t, openFile)
		if oerr != nil {
			t.Fatal(oerr)
		}
		if slices.Equal(theirs, open) {
			return ""
		}
		fmt.Fprintln(&out, "+ error:", err)
	}
	for _, l := range theirs {
		if !slices.Contains(ours, l) {
			fmt.Fprintln(&out, "-", l)
		}
	}
	for _, l := range ours {
		if !slices.Contains(theirs, l) {
			fmt.Fprintln(&out, "+", l)
		}
	}
	return out.String()
}

func corpusFabric(t *testing.T) *fabric.Fabric {
	t.Helper()
	f, err := fabric.ReadNetlist(strings.NewReader(corpusNet), fabric.NetlistOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// weHold is what the ports of the fabric hold, and which groups there are, after
// our manager has brought it up with a file.
func weHold(t *testing.T, text string) ([]string, error) {
	t.Helper()
	pol, _, err := partition.Parse(strings.NewReader(text), "conf")
	if err != nil {
		return nil, err
	}
	c, err := lab.NewCluster(corpusFabric(t), sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Attach("H-1", lab.DefaultConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	m.ServeSA(sa.Config{SAKey: 1}, sa.Options{SAKey: 1})
	m.SetPartitions(pol, 1)
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	if err := c.RunUntil(time.Minute, func() bool { return m.Up() && m.Status().Partitions.Settled }); err != nil {
		t.Fatalf("%v: %+v", err, m.Status().Partitions)
	}
	lines := tables(c.Sim, c.Fabric)
	for _, g := range m.View().Groups {
		lines = append(lines, groupLine(g.MGID, g.PKey, g.MTU, g.Rate, g.SL, g.QKey, g.TClass, g.FlowLabel, g.HopLimit, g.Scope))
	}
	return lines, nil
}

var moreOptions = regexp.MustCompile(`(?m)^#: opensm (.*)$`)

// opensmHolds is weHold with OpenSM as the manager.
func opensmHolds(t *testing.T, text string) []string {
	t.Helper()
	b, d, osm := opensmUp(t, text)
	// The dump of its SA is written at the latest when it ends, if there is anything.
	osm.StopWith(syscall.SIGINT, upTime)
	groups := opensmGroups(t, filepath.Join(b.Dir, "osm-H-1", "opensm-sa.dump"))
	var lines []string
	d.Do(func(s *sim.Subnet) { lines = tables(s, corpusFabric(t)) })
	return append(lines, groups...)
}

// opensmUp has OpenSM bring the fabric up with a file.
func opensmUp(t *testing.T, text string) (*ibtools.Bench, *live.Driver, *proc.Proc) {
	t.Helper()
	b, d := corpusBench(t)
	conf := filepath.Join(b.Dir, "partitions.conf")
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	options := filepath.Join(b.Dir, "opensm.conf")
	if err := os.WriteFile(options, []byte("force_log_flush TRUE\nsa_db_dump TRUE\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"-P", conf, "-F", options}
	for _, m := range moreOptions.FindAllStringSubmatch(text, -1) {
		args = append(args, strings.Fields(m[1])...)
	}
	return b, d, b.OpenSM(t, "H-1", upTime, args...)
}

// corpusBench simulates the fabric for real tools.
func corpusBench(t *testing.T) (*ibtools.Bench, *live.Driver) {
	t.Helper()
	s, err := sim.New(corpusFabric(t), sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	d := live.New(s)
	t.Cleanup(d.Close)
	// OpenSM gets every answer, however late.
	return ibtools.New(t, serve(t, d, ibsimd.Options{SockName: socketName(), AnswerTimeout: upTime})), d
}

// serve serves a simulator of this process to programs until the test ends, and returns its socket name.
func serve(t *testing.T, d *live.Driver, o ibsimd.Options) string {
	t.Helper()
	srv, err := ibsimd.Listen(d, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the simulator: %v", err)
		}
		srv.Close()
	})
	return srv.SockName()
}

// TestLimitedMembersReachTheSA: with the rule of OpenSM's manual, hosts are limited
// members, and so are the switch ports that face them. Hosts can query the SA, as on
// hardware (IBA o18-14), but not reach each other.
func TestLimitedMembersReachTheSA(t *testing.T) {
	need.Tool(t, "opensm")
	need.Tool(t, "saquery")
	b, d, _ := opensmUp(t, "Default=0x7fff : ALL, SELF=full ;\n")
	for _, node := range []string{"H-2", "H-4"} {
		if r := b.Run(upTime, node, "saquery", "CPI"); r.Err != nil || !strings.Contains(r.Out, "SA ClassPortInfo") {
			t.Errorf("%s does not reach the SA: %v\n%s", node, r.Err, r.Out)
		}
	}
	f := corpusFabric(t)
	d.Do(func(s *sim.Subnet) {
		for name, arrives := range map[string]bool{"H-1": true, "H-3": false} {
			to := mad.Addr{LID: s.PortInfo(f.Find(name), 1).LID}
			p, err := s.Probe(sim.VF{Node: f.Find("H-2"), Port: 1}, to, ib.PKeyDefaultLimited)
			if err != nil {
				t.Error(err)
				return
			}
			s.RunUntil(s.Now()) // there is no latency
			if p.Arrived != arrives || !arrives && f.Nodes[p.LostAt.Node].ID != "S-1" {
				t.Errorf("from a limited member to %s: %v", name, p)
			}
		}
	})
}

// opensmGroups lists the groups in OpenSM's dump of its SA.
func opensmGroups(t *testing.T, dump string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(dump)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for sc := bufio.NewScanner(bytes.NewReader(text)); sc.Scan(); {
		line := sc.Text()
		if !strings.HasPrefix(line, "MC Group ") {
			continue
		}
		num := func(name string) uint64 {
			_, v, _ := strings.Cut(line, " "+name+"=0x")
			v, _, _ = strings.Cut(v, " ")
			n, err := strconv.ParseUint(v, 16, 64)
			if err != nil {
				t.Fatalf("%s in %q: %v", name, line, err)
			}
			return n
		}
		m := regexp.MustCompile(` mgid=0x([0-9a-f]{16}):0x([0-9a-f]{16})`).FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("no MGID in %q", line)
		}
		raw, err := hex.DecodeString(m[1] + m[2])
		if err != nil {
			t.Fatal(err)
		}
		mgid := ib.GID(raw)
		x := num("sl_flow_hop")
		lines = append(lines, groupLine(mgid, ib.PKey(num("pkey")), ib.MTU(num("mtu")&0x3F), ib.Rate(num("rate")&0x3F), ib.SL(x>>28), ib.QKey(num("qkey")),
			uint8(num("tclass")), uint32(x>>8&0xFFFFF), uint8(x), uint8(num("scope_state")>>4)))
	}
	return lines
}

func groupLine(mgid ib.GID, key ib.PKey, mtu ib.MTU, rate ib.Rate, sl ib.SL, q ib.QKey, tclass uint8, flow uint32, hops, scope uint8) string {
	return fmt.Sprintf("group %v pkey=%v mtu=%d rate=%d sl=%d qkey=%#x tclass=%d flow=%#x hops=%d scope=%d", mgid, key, mtu, rate, sl, uint32(q), tclass, flow, hops, scope)
}

// tables lists what the end ports hold, by index, and what the switch ports that
// face a host enforce. While everybody holds the default key alone, as full
// member, nothing is to be enforced, and whether it is makes no difference.
func tables(s *sim.Subnet, f *fabric.Fabric) (lines []string) {
	var edges []string
	trivial := true
	for i := range f.Nodes {
		n := &f.Nodes[i]
		for p := range n.Ports {
			keys := partition.Trim(s.PKeys(i, p, nil))
			switch {
			case !n.IsSwitch() && p == 0:
			case !n.IsSwitch() || p == 0:
				lines = append(lines, fmt.Sprintf("%s/%d %v", n.ID, p, keys))
				trivial = trivial && slices.Equal(keys, []ib.PKey{ib.PKeyDefaultFull})
			case n.Ports[p].Peer.Node >= 0 && !f.Nodes[n.Ports[p].Peer.Node].IsSwitch():
				keys = slices.DeleteFunc(keys, ib.PKey.IsEmpty)
				slices.Sort(keys)
				pi := s.PortInfo(i, p)
				edges = append(edges, fmt.Sprintf("%s/%d lets pass %v, in %v, out %v", n.ID, p, keys, pi.PartitionEnforcementInbound, pi.PartitionEnforcementOutbound))
			}
		}
	}
	if trivial {
		return lines
	}
	return append(lines, edges...)
}

// randomConf is a file with what people write, at random, and no mistakes.
func randomConf(rng *rand.Rand) string {
	var b strings.Builder
	pick := func(l ...string) string { return l[rng.IntN(len(l))] }
	maybe := func(of int, s string) string {
		if rng.IntN(of) != 0 {
			return ""
		}
		return s
	}
	// Several keys that want index 0 of one port are told apart otherwise.
	index0 := pick("5", "0x8006", "0x7", "0x10")
	b.WriteString("#: opensm -Q\n")
	for range 1 + rng.IntN(5) {
		key := pick("5", "0x8006", "0x7", "0x7fff", "0x10")
		switch rng.IntN(4) {
		case 0:
			b.WriteString(key) // a number for a name
		case 1:
			key = pick("a", "b", "Default")
			b.WriteString(key)
		default:
			fmt.Fprintf(&b, "%s=%s", pick("a", "b", "Default", ""), key)
		}
		flags := maybe(2, ", ipoib") + maybe(4, ", defmember="+pick("full", "limited")) +
			maybe(4, ", mtu="+pick("2", "4", "5")) + maybe(4, ", rate="+pick("3", "6", "16")) + maybe(5, ", scope="+pick("2", "5", "8")) +
			maybe(6, ", Q_Key="+pick("0xb1b", "0x1234")) + maybe(6, ", TClass=7") + maybe(6, ", FlowLabel=0x12345") + maybe(5, ", sl="+pick("0", "1", "3"))
		if key == index0 {
			flags += maybe(2, ", indx0")
		}
		fmt.Fprintf(&b, "%s :", flags)
		for range rng.IntN(3) * rng.IntN(2) {
			fmt.Fprintf(&b, "\n\tmgid=%s", pick("ff12:401b::16", "ff12:601b::2", "ff12::7", "ff15::8", "ff12:401b::ffff:ffff", "ff1e:a01c::9"))
			b.WriteString(maybe(5, ",mtu="+pick("2", "4", "5")) + maybe(5, ",rate="+pick("3", "6")) + maybe(4, ",scope="+pick("2", "5", "8")) +
				maybe(6, ",Q_Key=0x4321") + maybe(6, ",TClass=9") + maybe(6, ",FlowLabel=7") + maybe(5, ",sl=2"))
		}
		b.WriteString("\n\t")
		for i := range 1 + rng.IntN(4) {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(pick("ALL", "ALL_CAS", "ALL_SWITCHES", "ALL_ROUTERS", "SELF", "0x11", "0x21", "0x31", "0x41", "0x51", "0x52", "0x61"))
			b.WriteString(maybe(2, "="+pick("full", "limited", "full")))
		}
		b.WriteString(" ;\n")
	}
	// Ours stays a full member of the default partition whatever the file says.
	b.WriteString("0x7fff : SELF=full ;\n")
	return b.String()
}
