package opensm

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"heddle/settings"
)

func read(t *testing.T, text string) *Conf {
	t.Helper()
	c, err := Read(strings.NewReader(text), "opensm.conf")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestReadsAsOpenSM: values as OpenSM reads them, and notes where that is not what the line says.
// TestOptionsAsOpenSM of internal/interop reads the same lines with OpenSM.
func TestReadsAsOpenSM(t *testing.T) {
	for _, c := range []struct {
		line, option, want, note string
	}{
		{"sweep_interval 30", "sweep_interval", "30", ""},
		{"\t sweep_interval \t 30 \t # half a minute", "sweep_interval", "30", ""},
		{"sweep_interval 30\r", "sweep_interval", "30", ""},
		{`routing_engine "ftree,updn"`, "routing_engine", "ftree,updn", ""},
		{"sweep_interval 030", "sweep_interval", "24", "octal"},
		{"sweep_interval 0x1e", "sweep_interval", "30", ""},
		{"sweep_interval 30s", "sweep_interval", "10", "ignores the line"},
		{"sweep_interval", "sweep_interval", "10", "ignores the line"},
		{"sweep_interval -1", "sweep_interval", "10", "out of range"},
		{"sweep_interval 4294967296", "sweep_interval", "10", "out of range"},
		{"lmc 256", "lmc", "0", "out of range"},
		{"lmc 8", "lmc", "0", "above 7"},
		{"m_key -1", "m_key", "0xffffffffffffffff", "a negative one wraps"},
		{"m_key 0x10000000000000000", "m_key", "0x0000000000000000", "out of range"},
		{"qos true", "qos", "FALSE", "only the word TRUE"},
		{"qos TRUE", "qos", "TRUE", ""},
		{"qos yes", "qos", "FALSE", "only the word TRUE"},
		{"qos (null)", "qos", "FALSE", "only the word TRUE"},
		{"log_prefix (null)", "log_prefix", "(null)", ""},
		{"log_prefix sm#1", "log_prefix", "sm", "ends before the #"},
		{"no_partition_enforcement TRUE", "part_enforce", "off", ""},
		{"part_enforce Both", "part_enforce", "both", "uses both"},
		{"m_key_protection_level 2\nm_key_lease_period 5", "m_key_lease_period", "11", "sweep interval"},
		{"force_link_speed 9", "force_link_speed", "15", "no set of speeds"},
		{"force_link_width 40", "force_link_width", "255", "no set of widths"},
		{"lmc 1\nlmc 2", "lmc", "2", "the last line counts"},
		{"sm_priority 16", "sm_priority", "0", "above 15"},
		{"qos_high_limit 255x", "qos_high_limit", "255", ""},
		{"cc_sw_cong_setting_victim_mask 0xF", "cc_sw_cong_setting_victim_mask", zeroMask[:65] + "f", ""},
		{"cc_ca_cong_setting_ccti_timer 3 7\ncc_ca_cong_setting_ccti_timer 4 8", "cc_ca_cong_setting_ccti_timer", "3 7, 4 8", ""},
		{"log_prefix " + strings.Repeat("x", 1020) + "\nlmc 3", "lmc", "3", "more than 1022 bytes"},
	} {
		conf := read(t, c.line)
		if got := conf.Get(c.option).Text; got != c.want {
			t.Errorf("%.60q: %s is %s, want %s", c.line, c.option, got, c.want)
		}
		if notes := fmt.Sprint(conf.Notes); (c.note == "") != (len(conf.Notes) == 0) || !strings.Contains(notes, c.note) {
			t.Errorf("%.60q: notes %s, want %q", c.line, notes, c.note)
		}
	}
}

// TestTable: no name is there twice, all defaults can be read and are written as OpenSM writes
// them, every setting exists and names the option, and every option says what becomes of it.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range Options() {
		if seen[o.Name] {
			t.Errorf("%s is there twice", o.Name)
		}
		seen[o.Name] = true
		v, said, err := o.kind.parse(o.Default, nil)
		if err != nil || said != "" || v.Text != o.Default {
			t.Errorf("%s: the default %q is read as %v: %s, %v", o.Name, o.Default, v, said, err)
		}
		switch s := settings.Find(o.Setting); {
		case o.Setting != "" && s == nil:
			t.Errorf("%s: there is no setting %s", o.Name, o.Setting)
		case o.Setting == "" && o.Means == "":
			t.Errorf("%s: what becomes of it?", o.Name)
		case strings.HasSuffix(o.Means, "."):
			t.Errorf("%s: %q ends with a full stop", o.Name, o.Means)
		}
	}
	// The settings name their options of OpenSM, and so does the table.
	for _, s := range settings.All() {
		if s.OpenSM == "" || s.Name == "sa-db" { // the import stores what the file has
			continue
		}
		if o := Find(s.OpenSM); o == nil || o.Setting != s.Name {
			t.Errorf("setting %s is for %s, which the table takes over as %v", s.Name, s.OpenSM, o)
		}
	}
}

// TestDefaults: without a line nothing is lost, and with a line for each default neither.
func TestDefaults(t *testing.T) {
	var all strings.Builder
	for _, o := range Options() {
		if !o.Vendor {
			fmt.Fprintf(&all, "%s %s\n", o.Name, o.Default)
		}
	}
	first := ""
	for _, text := range []string{"", all.String()} {
		conf := read(t, text)
		im := Convert(conf, func(string) bool { return false })
		if !im.Complete() || len(conf.Notes) > 0 || len(im.Notes) > 0 {
			t.Errorf("something is lost: %+v %v %v", im.Results, conf.Notes, im.Notes)
		}
		if err := im.Values.Check(); err != nil {
			t.Error(err)
		}
		var b bytes.Buffer
		if err := im.WriteYAML(&b, nil); err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = b.String()
		}
		if d := cmp.Diff(first, b.String()); d != "" {
			t.Error(d)
		}
	}
}

// TestConvert: what options become.
func TestConvert(t *testing.T) {
	for _, c := range []struct {
		conf    string
		option  string
		outcome Outcome
		want    string // settings, or a part of the reason
	}{
		{"guid 0x2c9030002fce9", "guid", Set, "port=umad:0x0002c9030002fce9"},
		{"m_key 0x1234", "m_key", Set, "m-key=0x1234"},
		{"sa_key 1", "sa_key", Unneeded, "every host"},
		{"sa_key 0x77", "sa_key", Set, "sa-key=0x77"},
		{"lmc 2\nlmc_esp0 TRUE", "lmc_esp0", Set, "switch-lmc=2"},
		{"max_op_vls 5", "max_op_vls", Set, "max-vls=15"},
		{"max_op_vls 4", "max_op_vls", Same, ""},
		{"max_op_vls 0", "max_op_vls", LeftOut, "no code"},
		{"force_link_speed 5", "force_link_speed", Set, "link-speed=sdr,qdr"},
		{"force_link_speed_ext 30", "force_link_speed_ext", Set, "link-speed-ext=off"},
		{"force_link_width 0", "force_link_width", Same, ""},
		{"force_link_width 2", "force_link_width", Set, "link-width=4x"},
		{"fdr10 2", "fdr10", LeftOut, "FDR10"},
		{"subnet_timeout 32", "subnet_timeout", LeftOut, "0 to 31"},
		{"packet_life_time 0x14", "packet_life_time", Set, "packet-life=20"},
		{"partition_config_file /there/p", "partition_config_file", Set, "partitions=/there/p"},
		{"partition_config_file /gone/p", "partition_config_file", Unneeded, "cannot be opened"},
		{"no_partition_enforcement TRUE", "part_enforce", Set, "part-enforce=off"},
		{"sweep_interval 0", "sweep_interval", Set, "sweep-interval=0"},
		{"sweep_interval 20\nforce_heavy_sweep TRUE", "force_heavy_sweep", Set, "full-interval=20s"},
		{"reassign_lids TRUE", "reassign_lids", Refused, "--force"},
		{"", "routing_engine", Set, "engine=minhop,updn"},
		{"routing_engine ftree,updn", "routing_engine", Set, "engine=ftree,updn,minhop"},
		{"routing_engine torus-2QoS,no_fallback", "routing_engine", Set, "engine=torus"},
		{"routing_engine ftree updn file nosuch", "routing_engine", Set, "engine=ftree,updn,minhop"},
		{"routing_engine nue\nnue_max_num_vls 4", "nue_max_num_vls", Set, "route-vls=4"},
		{"nue_max_num_vls 4", "nue_max_num_vls", Unneeded, "not among"},
		{"routing_engine torus-2QoS\ntorus_config /there/t", "torus_config", Set, "torus-config=/there/t"},
		{"torus_config /there/t", "torus_config", Unneeded, "not among"},
		{"lash_start_vl 1", "lash_start_vl", Unneeded, "not among"},
		{"routing_engine lash\nlash_start_vl 1", "lash_start_vl", LeftOut, "VL 0"},
		{"scatter_ports 7", "scatter_ports", LeftOut, "by chance"},
		{"sminfo_polling_timeout 500", "sminfo_polling_timeout", Set, "poll-interval=500ms"},
		{"max_wire_smps 16\nmax_wire_smps2 32", "max_wire_smps", Set, "window-start=16"},
		{"max_wire_smps 16\nmax_wire_smps2 32", "max_wire_smps2", Set, "window=32"},
		{"max_wire_smps 16", "max_wire_smps", Set, "window-start=16 window=16"},
		{"max_wire_smps 0", "max_wire_smps", Set, "window-start=4096 window=4096"},
		{"transaction_timeout 300", "transaction_timeout", Set, "smp-timeout=300ms"},
		{"drop_event_subscriptions TRUE", "drop_event_subscriptions", Set, "drop-event-subscriptions-after=1s"},
		{"perfmgr TRUE\nperfmgr_sweep_time_s 30", "perfmgr", Set, "perf=30s"},
		{"perfmgr TRUE\nperfmgr_ignore_cas TRUE", "perfmgr_ignore_cas", Set, "perf-hosts=false"},
		{"perfmgr_sweep_time_s 30", "perfmgr_sweep_time_s", Unneeded, "perfmgr is FALSE"},
		{"node_name_map_name /there/names", "node_name_map_name", Set, "node-names=/there/names"},
		{"event_plugin_name opensmtmon", "event_plugin_name", LeftOut, "plug-ins"},
		{"log_flags 0x07", "log_flags", Set, "log-level=debug"},
		{"log_flags 0x43", "dump_files_dir", Set, "dump=/var/log/"},
		{"disable_multicast TRUE", "disable_multicast", LeftOut, "multicast"},
		{"qos TRUE\nqos_ca_vlarb_low 0:64", "qos_ca_vlarb_low", Unneeded, "qos_vlarb_low has it"},
		{"qos TRUE\nqos_ca_vlarb_low 0:64\nqos_vlarb_low 1:2,2:3", "qos_vlarb_low", Set, "qos-vlarb-low=ca=0:64; sw0=1:2,2:3; swe=1:2,2:3; rtr=1:2,2:3"},
		{"qos TRUE\nqos_sl2vl 0,1", "qos_sl2vl", Set, "qos-sl2vl=0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0"},
		{"qos TRUE\nqos_swe_high_limit 255", "qos_high_limit", Set, "qos-high-limit=ca=0; sw0=0; swe=255; rtr=0"},
		{"avoid_throttled_links TRUE", "avoid_throttled_links", Unneeded, "neither sssp"},
		{"avoid_throttled_links TRUE\nrouting_engine nue", "avoid_throttled_links", Set, "avoid-throttled-links=true"},
		{"avoid_throttled_links TRUE\nrouting_engine ftree,dfsssp", "avoid_throttled_links", Set, "avoid-throttled-links=true"},
		{"qos TRUE\nqos_sl2vl 0,x", "qos_sl2vl", LeftOut, "out of the range"},
		{"qos_ca_vlarb_low 0:64", "qos_ca_vlarb_low", Unneeded, "qos is FALSE"},
		{"qos TRUE\nqos_policy_file /there/q", "qos_policy_file", Set, "qos-policy=/there/q"},
		{"congestion_control TRUE", "congestion_control", Set, "congestion-control=act"},
		{"congestion_control TRUE\ncc_sw_cong_setting_threshold 0xf", "cc_sw_cong_setting_threshold", Set, "cc-threshold=15"},
		{"congestion_control TRUE\ncc_ca_cong_setting_ccti_timer 3 7", "cc_ca_cong_setting_ccti_timer", Set, "cc-timer=0,3:7"},
		{"congestion_control TRUE\ncc_cct 0:0,1:2", "cc_cct", Set, "cc-table=0:0,1:2"},
		{"congestion_control TRUE\ncc_sw_cong_setting_victim_mask 0x3", "cc_sw_cong_setting_victim_mask", Set, "cc-victim-mask=0x3"},
		{"congestion_control TRUE\ncc_sw_cong_setting_credit_starvation_return_delay 2:3", "cc_sw_cong_setting_credit_starvation_return_delay", Set, "cc-starvation-delay=2:3"},
		{"virt_enabled 1", "virt_enabled", Set, "virtualization=off"},
	} {
		conf := read(t, c.conf)
		im := Convert(conf, func(name string) bool { return strings.HasPrefix(name, "/there/") })
		var r *Result
		for i := range im.Results {
			if im.Results[i].Option.Name == c.option {
				r = &im.Results[i]
			}
		}
		var set []string
		for _, a := range r.Settings {
			set = append(set, a.Name+"="+a.Text)
		}
		got := strings.Join(set, " ")
		if c.outcome != Set {
			if !strings.Contains(r.Why, c.want) {
				t.Errorf("%q: %s: %q, want %q", c.conf, c.option, r.Why, c.want)
			}
			got, c.want = "", ""
		}
		if r.Outcome != c.outcome || got != c.want {
			t.Errorf("%q: %s: outcome %d, settings %s (%s); want %d, %s", c.conf, c.option, r.Outcome, got, r.Why, c.outcome, c.want)
		}
	}
}

// TestSecrets: keys are in the file's settings, and neither in its comments nor in what is shown.
func TestSecrets(t *testing.T) {
	im := Convert(read(t, "m_key 0xabcdef01\nsm_key 0xabcdef02\nsa_key 0xabcdef03\ncongestion_control TRUE\ncc_key 0xabcdef04\n"), func(string) bool { return true })
	var b bytes.Buffer
	if err := im.WriteYAML(&b, nil); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, "#") && strings.Contains(line, "abcdef0") {
			t.Errorf("a comment shows a key: %s", line)
		}
	}
	for _, want := range []string{"m-key: 0xabcdef01\n", "sm-key: 0xabcdef02\n", "sa-key: 0xabcdef03\n", "cc-key: 0xabcdef04\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// FuzzConf: no file makes the reader fail, and what it read becomes settings that Heddle takes.
func FuzzConf(f *testing.F) {
	f.Add("sweep_interval 030\nqos true\nrouting_engine \"ftree,updn\"\n# x\nm_key -1\n")
	f.Add("cc_cct 0:0,1:2\ncongestion_control TRUE\ncc_ca_cong_setting_ccti_timer 3 7\nforce_link_width 255")
	f.Add("lmc 3\x00\nqos TRUE\r\nunknown_option 'x'\nvirt_enabled 2")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Read(strings.NewReader(text), "opensm.conf")
		if err != nil {
			if len(text) <= maxConf {
				t.Fatal(err)
			}
			return
		}
		im := Convert(c, func(string) bool { return true })
		var b bytes.Buffer
		if err := im.WriteYAML(&b, nil); err != nil {
			t.Fatal(err)
		}
		for i := range im.Results {
			for _, a := range im.Results[i].Settings {
				if err := settings.New().Set(a.Name, a.Text, "test"); err != nil {
					t.Errorf("%s: %v", im.Results[i].Option.Name, err)
				}
			}
		}
	})
}

// TestNotesHaveNoKeys: what OpenSM makes of a line with a key is said without the key.
func TestNotesHaveNoKeys(t *testing.T) {
	for _, lines := range []string{
		"m_key 0777111", "m_key -777111", "sm_key 777111\nsm_key 777112", "sa_key 777111zz", "cc_key 777111#x", "m_key 0x77711177711177711",
	} {
		c := read(t, lines)
		if len(c.Notes) == 0 {
			t.Errorf("%q: no note", lines)
		}
		for _, n := range c.Notes {
			for _, key := range []string{"777", "bdb9", "3fe49", "261705", "442479"} { // to base 10, 16 and 8
				if strings.Contains(strings.ToLower(n.String()), key) {
					t.Errorf("%q: %v", lines, n)
				}
			}
		}
	}
}
