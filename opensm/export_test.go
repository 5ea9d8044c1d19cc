package opensm

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"heddle/ib"
	"heddle/settings"
	"heddle/store"
)

// TestConfThereAndBack: options that Heddle takes over come back from its settings.
func TestConfThereAndBack(t *testing.T) {
	const text = "guid 0x0002c9030002fce9\nm_key 0x0000000000001234\nm_key_lease_period 60\nm_key_protection_level 2\nsm_key 0x0000000000000002\n" +
		"sa_key 0x0000000000000007\nlmc 2\nlmc_esp0 TRUE\nsm_sl 1\npacket_life_time 0x13\nmax_op_vls 3\nforce_link_speed 5\nforce_link_width 2\n" +
		"subnet_timeout 20\npart_enforce off\nsweep_interval 30\nforce_heavy_sweep TRUE\nrouting_engine torus-2QoS,updn,minhop\nconnect_roots TRUE\n" +
		"root_guid_file /there/roots\nmax_reverse_hops 3\nsm_priority 5\nsminfo_polling_timeout 500\npolling_retry_number 2\nmax_wire_smps 16\n" +
		"transaction_timeout 300\ntransaction_retries 2\ndrop_event_subscriptions TRUE\nperfmgr TRUE\nperfmgr_sweep_time_s 30\nperfmgr_ignore_cas TRUE\n" +
		"log_flags 0x07\nno_clients_rereg TRUE\nqos TRUE\nqos_ca_high_limit 7\nqos_swe_vlarb_low 1:2,3:4\nqos_rtr_sl2vl 0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,7\ncongestion_control TRUE\ncc_key 0x0000000000000009\ncc_ca_cong_setting_port_control 0x0001\nconsolidate_ipv6_snm_req TRUE\n"
	there := func(string) bool { return true }
	im := Convert(read(t, text), there)
	var b bytes.Buffer
	if err := WriteConf(&b, im.Values, "/var/dump"); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text + "honor_guid2lid_file TRUE\nsa_db_file /var/dump\n") {
		if !strings.Contains(b.String(), "\n"+line) {
			t.Errorf("%q is missing in\n%s", line, b.String())
		}
	}
	// Once more there: the same settings.
	again := Convert(read(t, b.String()), there)
	for _, s := range settings.All() {
		if a, b := im.Values.Text(s.Name), again.Values.Text(s.Name); a != b {
			t.Errorf("%s is %s, and %s after the way back", s.Name, a, b)
		}
	}
}

// TestDefaultsBack: a Heddle without settings.
func TestDefaultsBack(t *testing.T) {
	var b bytes.Buffer
	if err := WriteConf(&b, settings.New(), ""); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nrouting_engine ftree,minhop,updn\n", "\nmax_op_vls 4\n", "\nforce_link_speed 0\n", "\nhonor_guid2lid_file TRUE\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// TestBothEnds: each line has one that points back.
func TestBothEnds(t *testing.T) {
	list := BothEnds([]store.NeighborEntry{
		{Node: 100, Port: 1, Peer: 7},
		{Node: 100, Port: 5, Peer: 200},
		{Node: 100, Port: 6, Peer: 200},
		{Node: 200, Port: 1, Peer: 100},
		{Node: 200, Port: 2, Peer: 100},
		{Node: 200, Port: 3, Peer: 8},
		{Node: 8, Port: 1, Peer: 200},
	})
	if len(list) != 8 {
		t.Errorf("%+v", list)
	}
	ends := map[[2]ib.GUID]bool{}
	for _, n := range list {
		back := Neighbor{GUID: n.Peer, Port: n.PeerPort, Peer: n.GUID, PeerPort: n.Port}
		at := [2]ib.GUID{n.GUID, ib.GUID(n.Port)}
		if !slices.Contains(list, back) || ends[at] {
			t.Errorf("%+v does not point back, or is there twice", n)
		}
		ends[at] = true
	}
}
