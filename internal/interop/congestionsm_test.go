package interop

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/lab"
	"heddle/settings"
	"heddle/sim"
)

// ccSets are the Sets of the congestion control class that reached agents: the last MAD, without
// its transaction ID, by node, attribute and modifier.
type ccSets struct {
	mu   sync.Mutex
	last map[string]ib.MAD // guarded by mu
}

// listen has the agents of a subnet tell s of requests.
func (s *ccSets) listen(t *testing.T, sub *sim.Subnet, f *fabric.Fabric) {
	s.last = map[string]ib.MAD{}
	for i := range f.Nodes {
		name := f.Nodes[i].Name()
		if err := sub.SetCCA(name, &sim.CCA{Request: func(m *ib.MAD) {
			if m.Method() != ib.MethodSet {
				return
			}
			x := *m
			x.SetTID(0)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.last[fmt.Sprintf("%s %#04x %d", name, uint16(m.AttrID()), m.AttrMod())] = x
		}}); err != nil {
			t.Error(err)
		}
	}
}

func (s *ccSets) all() map[string]ib.MAD {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.last)
}

// TestCongestionAsOpenSM: with equal options our manager writes the same attributes to the same nodes
// as OpenSM, and the MADs are equal in every bit but the transaction ID.
func TestCongestionAsOpenSM(t *testing.T) {
	need.Tool(t, "opensm")
	mask := "0x" + strings.Repeat("0", 50) + "10000000001FE"
	var table strings.Builder
	table.WriteString("0:0")
	for i := 1; i < 70; i++ {
		table.WriteString(fmt.Sprintf(",%d:%d", i%4, i*i))
	}
	for _, c := range []struct {
		name string
		osm  []string // lines of opensm.conf
		ours []string // NAME VALUE
		sets int
	}{
		{"all", []string{
			"cc_key 0x0123456789abcdef",
			"cc_sw_cong_setting_control_map 0x1F", "cc_sw_cong_setting_victim_mask " + mask, "cc_sw_cong_setting_credit_mask 0x1e",
			"cc_sw_cong_setting_threshold 0x0F", "cc_sw_cong_setting_packet_size 9", "cc_sw_cong_setting_credit_starvation_threshold 0x03",
			"cc_sw_cong_setting_credit_starvation_return_delay 2:77", "cc_sw_cong_setting_marking_rate 300",
			"cc_ca_cong_setting_port_control 0x1", "cc_ca_cong_setting_control_map 0x8009",
			"cc_ca_cong_setting_ccti_timer 0 150", "cc_ca_cong_setting_ccti_timer 3 999", "cc_ca_cong_setting_ccti_increase 0 1",
			"cc_ca_cong_setting_ccti_increase 3 4", "cc_ca_cong_setting_trigger_threshold 0 8", "cc_ca_cong_setting_ccti_min 15 2",
			"cc_cct " + table.String(),
		}, []string{
			"cc-key 0x0123456789abcdef",
			"cc-switch-map 0x1F", "cc-victim-mask " + mask, "cc-credit-mask 0x1e", "cc-threshold 15", "cc-packet-size 9",
			"cc-starvation-threshold 3", "cc-starvation-delay 2:77", "cc-marking-rate 300", "cc-control sl", "cc-sl-map 0x8009",
			"cc-timer 0,0:150,3:999", "cc-increase 0,0:1,3:4", "cc-trigger 0,0:8", "cc-min 0,15:2", "cc-table " + table.String(),
		}, 2 + 4*3},
		{"some", []string{
			"cc_sw_cong_setting_control_map 0x04", "cc_sw_cong_setting_threshold 0x08", "cc_ca_cong_setting_control_map 0x0001",
			"cc_ca_cong_setting_ccti_timer 0 20", "cc_ca_cong_setting_ccti_increase 0 2", "cc_cct 0:1,0:2,0:3",
		}, []string{
			"cc-switch-map 0x04", "cc-threshold 8", "cc-packet-size 0", "cc-victim-mask 0x0", "cc-sl-map 1", "cc-timer 0,0:20",
			"cc-increase 0,0:2", "cc-trigger 0", "cc-table 0:1,0:2,0:3",
		}, 2 + 4*2},
	} {
		t.Run(c.name, func(t *testing.T) {
			theirs, ours := opensmCongests(t, c.osm, c.sets), weCongest(t, c.ours)
			for _, k := range slices.Sorted(maps.Keys(theirs)) {
				x, y := theirs[k], ours[k]
				if x != y {
					t.Errorf("%s: OpenSM writes\n% x\nwe write\n% x", k, x, y)
				}
			}
			for k := range ours {
				if _, ok := theirs[k]; !ok {
					t.Errorf("%s: OpenSM writes nothing", k)
				}
			}
			if len(theirs) != c.sets {
				t.Errorf("OpenSM writes %d attributes, expected were %d: %v", len(theirs), c.sets, slices.Sorted(maps.Keys(theirs)))
			}
		})
	}
}

// opensmCongests has OpenSM bring the fabric up, and returns what it wrote, once that is so much.
func opensmCongests(t *testing.T, options []string, most int) map[string]ib.MAD {
	t.Helper()
	b, d := corpusBench(t)
	var sets ccSets
	d.Do(func(s *sim.Subnet) { sets.listen(t, s, corpusFabric(t)) })
	conf := filepath.Join(b.Dir, "opensm.conf")
	text := "force_log_flush TRUE\nsweep_interval 1\ncongestion_control TRUE\n" + strings.Join(options, "\n") + "\n"
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	b.OpenSM(t, "H-1", upTime, "-F", conf)
	eventually(t, fmt.Sprintf("OpenSM writes %d attributes", most), func() bool { return len(sets.all()) >= most })
	return sets.all()
}

// weCongest is the same with our manager, in virtual time.
func weCongest(t *testing.T, options []string) map[string]ib.MAD {
	t.Helper()
	v := settings.New()
	for _, o := range append([]string{"congestion-control act"}, options...) {
		name, text, _ := strings.Cut(o, " ")
		if err := v.Set(name, text, name); err != nil {
			t.Fatal(err)
		}
	}
	c, err := lab.NewCluster(corpusFabric(t), sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var sets ccSets
	sets.listen(t, c.Sim, c.Fabric)
	m, err := c.Attach("H-1", lab.DefaultConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	m.ServeCongestion(v.Congestion)
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	if err := c.RunUntil(time.Minute, func() bool {
		s := m.CongestionStatus()
		return s.Agents == 6 && s.Managed == 6 && s.Differs == 0
	}); err != nil {
		t.Fatalf("%v: %+v", err, m.CongestionStatus())
	}
	return sets.all()
}

// TestCongestionManagerSeen: what the manager computes and writes is what unmodified ibccquery reads,
// and ibccconfig's changes are undone; withdraw takes all of it back.
func TestCongestionManagerSeen(t *testing.T) {
	need.FUSE(t)
	need.Tool(t, "ibccquery")
	need.Tool(t, "ibccconfig")
	u := upCounting(t, "--congestion-control", "act", "--cc-interval", "1s", "--cc-log", "1s", "--cc-senders", "16", "--cc-key", "0xabc", "--cc-write-key")
	tool := func(args string) string {
		return must(t, upTime, u.dir, nil, heddle, append([]string{"attach", "host-2@" + u.sock, "--"}, strings.Fields(args)...)...)
	}
	var c struct {
		Managed, Agents, Differs, Pending int
		Sets, Repairs                     uint64
	}
	settled := func() bool {
		getJSON(t, "http://"+u.api+"/v1/congestion", &c)
		return c.Agents == 14 && c.Managed == 14 && c.Differs == 0 && c.Pending == 0
	}
	eventually(t, "all nodes hold what is wanted", settled)
	const adapter, sw = "1", "9"
	read := func(want ...string) {
		t.Helper()
		for i := 0; i < len(want); i += 2 {
			if out := tool("ibccquery -c 0xabc " + want[i]); !strings.Contains(out, want[i+1]) {
				t.Errorf("ibccquery %s: no %q in\n%s", want[i], want[i+1], out)
			}
		}
	}
	read("SS "+sw, "Threshold:.......................0x04\nPacket_Size:.....................8\n",
		"SS "+sw, "Victim_Mask:.....................0000000000000000000000000000000000000000000000000000000000000006\n",
		"CS "+adapter, "CCTI_Increase:...................1\n", "CT "+adapter+" 1", "CCTI_Limit:......................127\n",
		"CT "+adapter+" 1", "CCT_Multiplier:..................256\n", "CK "+adapter, "CC_Key:..........................0x0000000000000abc\n")
	was := c.Repairs
	tool("ibccconfig -c 0xabc SS " + sw + " 0x1F 0x1FE 0x2 0xF 8 0 0:0 5")
	eventually(t, "a repair", func() bool { return settled() && c.Repairs > was })
	read("SS "+sw, "Threshold:.......................0x04\n")
	must(t, upTime, u.dir, nil, heddle, "ctl", "congestion", "mode", "withdraw", "--api", u.api, "--token-file", filepath.Join(u.dir, "token"))
	eventually(t, "everything is withdrawn", func() bool {
		return settled() && bytes.Contains([]byte(tool("ibccquery SS "+sw)), []byte("Threshold:.......................0x00\n"))
	})
	read("CT "+adapter, "CCTI_Limit:......................0\n", "CK "+adapter, "CC_Key:..........................0x0000000000000000\n")
	if out := must(t, upTime, u.dir, nil, heddle, "ctl", "congestion", "show", "--api", u.api); !strings.Contains(out, "mode withdraw: 14 of 14 agents") {
		t.Error(out)
	}
}
