package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"heddle/ib"
	"heddle/internal/need"
)

// saDiffers are the fields that our SA answers otherwise than OpenSM's, by the
// title of saquery's dump, and why. docs/sa.md has the same table.
var saDiffers = map[string]map[string]string{
	"SA ClassPortInfo": {
		"Capability mask":   "no Get or Set of Notice is served; CapabilityMask2 is said to be valid",
		"Capability mask 2": "NDR is known",
	},
	"SMInfo dump": {
		"ActCount": "a counter of the manager",
	},
	"PortInfoRecord dump": {
		"PartEnforceInb":  "OpenSM enforces partitions at switch ports by default even where there is only one",
		"PartEnforceOutb": "as PartEnforceInb",
	},
	"SwitchInfoRecord dump": {
		"MulticastFDBTop": "set by the manager that wrote multicast tables",
	},
}

// saApart are queries whose answers differ in whole records, and why.
var saApart = []struct{ re, why string }{
	{"^--sgid.* --pkt_lifetime 0x41 PR$", "less than 1 is 0 here, no path there"},
}

// saRecord is a dump that saquery prints: its title and lines.
type saRecord struct {
	title  string
	fields []string
}

func (r saRecord) String() string { return r.title + "\n\t" + strings.Join(r.fields, "\n\t") }

var saField = regexp.MustCompile(`^(.*?)[.:]{2,}`)

// parseSA splits what saquery printed into records, without what may differ.
// Tables toward the own port of switches, by LID, are left out: OpenSM never
// reads nor writes them, and tells zeros. So are the P_Key tables of switches'
// external ports, which heddle leaves alone while no partition needs them; and
// OpenSM turns the bytes of block numbers.
func parseSA(text string, switches map[string]bool) (out []string) {
	var r *saRecord
	var list []saRecord
	for l := range strings.Lines(text) {
		l = strings.TrimSpace(l)
		switch {
		case l == "" || l == "PortInfo dump:":
		case strings.HasSuffix(l, "dump:") || strings.HasPrefix(l, "SA ClassPortInfo"):
			list = append(list, saRecord{title: strings.TrimSuffix(l, ":")})
			r = &list[len(list)-1]
		case r == nil || strings.HasPrefix(l, "exit ") || strings.HasPrefix(l, "ERROR"):
			list = append(list, saRecord{title: l})
			r = nil
		default:
			if m := saField.FindStringSubmatch(l); m != nil {
				if _, ok := saDiffers[r.title][strings.TrimSpace(m[1])]; ok {
					continue
				}
			}
			r.fields = append(r.fields, l)
		}
	}
	value := func(field, name string) string { return strings.TrimLeft(strings.TrimPrefix(field, name), ".") }
	for i := range list {
		f := list[i].fields
		switch {
		case list[i].title == "SL2VLTableRecord dump" && len(f) > 2:
			if switches[value(f[0], "LID")] && value(f[2], "OutPort") == "0" {
				list[i].fields = f[:3]
			}
		case list[i].title == "PKeyTableRecord dump" && len(f) > 2:
			if switches[value(f[0], "LID")] && value(f[1], "Port") != "0" {
				continue
			}
			f[2] = strings.Replace(f[2], ".256", ".1", 1)
		}
		out = append(out, list[i].String())
	}
	slices.Sort(out)
	return out
}

// saNode is what the queries need to know of a node.
type saNode struct{ lid, guid string }

// saNodes reads NodeRecords as saquery prints them, by node description.
func saNodes(text string) map[string]saNode {
	out := map[string]saNode{}
	var n saNode
	for l := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(l), "..")
		if !ok {
			continue
		}
		switch value = strings.TrimLeft(value, "."); name {
		case "lid":
			n.lid = value
		case "port_guid":
			n.guid = value
		case "NodeDescription":
			out[value] = n
		}
	}
	return out
}

// saQueries are the queries that saquery can make: every record type, and every
// selector of a path.
func saQueries(b *built, nodes map[string]saNode) []string {
	src, dst, sw := nodes[b.cas[3]], nodes[b.cas[9]], nodes["sw-1-1"]
	gid := func(n saNode) string {
		g := strings.TrimPrefix(n.guid, "0x")
		return "fe80::" + g[:4] + ":" + g[4:8] + ":" + g[8:12] + ":" + g[12:]
	}
	path := func(options string) string {
		return fmt.Sprintf("--sgid %s --dgid %s %s PR", gid(src), gid(dst), options)
	}
	q := []string{
		"CPI", "-c",
		"NR", "-N", "NR " + src.lid, "NR 999", "-L " + b.cas[3], "-l " + b.cas[3], "-G " + b.cas[3], "-O " + src.lid, "-U " + src.guid, "--list",
		"PIR", "PIR " + src.lid, "PIR " + sw.lid + "/4", "PIR " + sw.lid + "/4/0x80", "PIR " + sw.lid + "/99", "-s",
		"SL2VL", "SL2VL " + sw.lid + "/1/2", "SL2VL " + src.lid,
		"PKTR", "--smkey 1 PKTR", "--smkey 1 PKTR " + src.lid + "/1/0", "--smkey 1 PKTR " + sw.lid + "/0/0",
		"VLAR", "VLAR " + sw.lid + "/4/1", "VLAR " + src.lid + "/1/3",
		"IIR", "-I", "IIR " + gid(src), "SR", "-S",
		"LR", "-x", "LR " + sw.lid, "LR " + sw.lid + "/4", "LR " + src.lid + "/1 " + sw.lid, "LR " + src.lid + " " + dst.lid,
		"PR", "-p", "--slid " + src.lid + " PR", "--dlid " + dst.lid + " PR", "--slid " + src.lid + " --dlid " + dst.lid + " PR",
		"--slid " + sw.lid + " --dlid " + sw.lid + " PR", "--slid 999 --dlid " + dst.lid + " PR",
		"--sgid-to-dgid " + gid(src) + "-" + gid(dst), "--src-to-dst " + b.cas[3] + ":" + b.cas[9], "--src-to-dst " + src.lid + ":" + dst.lid,
		"--sgid fe80::1 --dgid " + gid(dst) + " PR", "--sgid " + gid(src) + " --dlid " + dst.lid + " PR",
		"--sgid " + gid(src) + " --slid " + dst.lid + " --dlid " + dst.lid + " PR",
		"LFTR", "LFTR " + sw.lid + "/0", "LFTR " + sw.lid + "/9", "LFTR " + src.lid + "/0",
		"MFTR", "MFTR 0xc000/0/0",
		"GIR", "GIR " + src.lid + "/0", "GIR " + src.lid + "/3", "GIR " + sw.lid + "/0",
		"SWIR", "SWIR " + sw.lid, "SWIR " + src.lid, "SMIR", "SMIR " + src.lid,
		"MCMR", "-g", "-m", "--smkey 1 MCMR", "--mlid 0xc000 MCMR", "--smkey 1 -m 0xc000", "--mgid ff12:401b:ffff::ffff:ffff MCMR",
		"--smkey 99 -t 200 NR",
	}
	for _, o := range []string{
		"-r 1", "-r 0", "-n 1", "-n 2", "-n 127", "--pkey 0xffff", "--pkey 0x7fff", "--pkey 0x8001", "--sl 3",
		"-Q 5", "-T 7", "-F 9", "-H 3", "--service_id 0x1000000000000001",
		"-M 0x85 -R 0x90 --pkt_lifetime 0x92", "-M 0x44 -R 0x42 -n 1 -r 1",
	} {
		q = append(q, path(o))
	}
	for _, sel := range []int{0, 0x40, 0x80, 0xC0} {
		for _, mtu := range []int{1, 3, 4, 5, 6} {
			q = append(q, path(fmt.Sprintf("-M %#x", sel|mtu)))
		}
		for _, rate := range []int{2, 3, 4, 7, 11, 12, 16, 17, 18, 1} {
			q = append(q, path(fmt.Sprintf("-R %#x", sel|rate)))
		}
		for _, life := range []int{1, 17, 18, 19, 30} {
			q = append(q, path(fmt.Sprintf("--pkt_lifetime %#x", sel|life)))
		}
	}
	return q
}

// ask runs all queries on a node and returns what each of them printed.
func (b *built) ask(t *testing.T, sock, node, file string, queries []string) []string {
	t.Helper()
	var script strings.Builder
	for _, q := range queries {
		fmt.Fprintf(&script, "echo '##### %s'; saquery -t 5000 %s 2>&1; echo exit $?\n", q, q)
	}
	path := filepath.Join(b.dir, file)
	if err := os.WriteFile(path, []byte(script.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	text := must(t, upTime, b.dir, nil, heddle, "attach", node+"@"+sock, "--", "sh", path)
	var out []string
	for i, part := range strings.Split(text, "##### ")[1:] {
		q, rest, _ := strings.Cut(part, "\n")
		if q != queries[i] {
			t.Fatalf("output of %q where that of %q should be", q, queries[i])
		}
		out = append(out, rest)
	}
	return out
}

// TestSameAnswers sends every query of saquery to OpenSM's SA, then to Heddle's after a
// takeover with the same LIDs and tables, on a port of each kind, and compares the
// answers.
func TestSameAnswers(t *testing.T) {
	need.FUSE(t)
	for _, c := range []struct {
		name, lmc string
		gen       []string
		long      bool
		queries   []string // nil: all
	}{
		{name: "LMC 0", lmc: "0", gen: smallTree.gen},
		{name: "LMC 1", lmc: "1", gen: smallTree.gen, long: true},
		// Tables of more nodes than were once read for one query.
		{name: "85 nodes", lmc: "0", gen: []string{"xgft", "2", "8,9", "1,4"}, queries: []string{"VLAR", "SL2VL"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.long {
				need.Long(t)
			}
			opensm := need.Tool(t, "opensm")
			need.Tool(t, "saquery")
			b := testNet{name: "tree", gen: c.gen}.build(t)
			_, env := b.simulate(t)
			sock := strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
			manager, client := b.cas[0], b.cas[6]
			dir, args := opensmFiles(t, 0)
			// Without QoS it does not read the lane tables, and tells zeros.
			// It sweeps once: later sweeps of a busy machine take a late answer for a lost node, and OpenSM
			// does not answer the queries of that node.
			args = append(args, "-Q", "-l", c.lmc, "-s", "0")
			osm := start(t, dir, []string{"OSM_TMP_DIR=" + dir, "OSM_CACHE_DIR=" + dir}, heddle,
				append([]string{"attach", manager + "@" + sock, "--", opensm}, args...)...)
			osm.await("SUBNET UP", 0, upTime)
			nodes := saNodes(must(t, upTime, b.dir, nil, heddle, "attach", client+"@"+sock, "--", "saquery", "-t", "5000", "NR"))
			if len(nodes) != len(b.fab.Nodes) {
				t.Fatalf("OpenSM tells of %d nodes, want %d", len(nodes), len(b.fab.Nodes))
			}
			queries := c.queries
			if queries == nil {
				queries = saQueries(&b, nodes)
			}
			theirs := b.ask(t, sock, client, "opensm.sh", queries)
			osm.stop(syscall.SIGINT)

			switches := map[string]bool{}
			for i := range b.fab.Nodes {
				if n := &b.fab.Nodes[i]; n.Type == ib.NodeSwitch {
					switches[nodes[n.Desc].lid] = true
				}
			}
			for _, port := range portKinds {
				sm := start(t, b.dir, nil, heddle, managerOn(port, manager, sock, "--api", "", "--engine", "minhop", "--lmc", c.lmc, "--sa-key", "1")...)
				sm.await("SUBNET UP\n", 0, upTime)
				ours := b.ask(t, sock, client, "heddle.sh", queries)
				if err := sm.stop(syscall.SIGTERM); err != nil {
					t.Errorf("heddle sm on %s ended with %v on SIGTERM", port, err)
				}
				t.Run(port, func(t *testing.T) { compareSA(t, switches, queries, ours, theirs) })
			}
		})
	}
}

// saDiff shows the first records that only one side has; of two that follow one
// another the lines that differ.
func saDiff(got, want []string) string {
	only := func(a, b []string) (out []string) {
		for _, x := range a {
			if _, ok := slices.BinarySearch(b, x); !ok && len(out) < 2 {
				out = append(out, x)
			}
		}
		return out
	}
	more, less := only(got, want), only(want, got)
	var b strings.Builder
	for i := range max(len(more), len(less)) {
		if i >= len(more) || i >= len(less) {
			for _, x := range more[min(i, len(more)):] {
				fmt.Fprintf(&b, "unexpected %s\n", x)
			}
			for _, x := range less[min(i, len(less)):] {
				fmt.Fprintf(&b, "missing %s\n", x)
			}
			break
		}
		x, y := strings.Split(more[i], "\n"), strings.Split(less[i], "\n")
		fmt.Fprintln(&b, x[:min(4, len(x))])
		for k := range min(len(x), len(y)) {
			if x[k] != y[k] {
				fmt.Fprintf(&b, "  %s, OpenSM %s\n", strings.TrimSpace(x[k]), strings.TrimSpace(y[k]))
			}
		}
	}
	return b.String()
}

func compareSA(t *testing.T, switches map[string]bool, queries, ours, theirs []string) {
	t.Helper()
	same, records := 0, 0
next:
	for i, q := range queries {
		got, want := parseSA(ours[i], switches), parseSA(theirs[i], switches)
		if slices.Equal(got, want) {
			same++
			records += len(got) - 1
			continue
		}
		for _, x := range saApart {
			if regexp.MustCompile(x.re).MatchString(q) {
				t.Logf("not compared: saquery %s: %s", q, x.why)
				continue next
			}
		}
		t.Errorf("saquery %s: %d records, OpenSM %d\n%s", q, len(got)-1, len(want)-1, saDiff(got, want))
	}
	t.Logf("%d of %d queries answered alike, %d records", same, len(queries), records)
}
