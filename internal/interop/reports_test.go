package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/transport/umad"
)

// TestReports: heddle's Reports of a lost and a returned host have the same bytes as
// OpenSM's, except transaction IDs and unused bytes.
func TestReports(t *testing.T) {
	need.FUSE(t)
	need.Tool(t, "opensm")
	all := map[string][]string{}
	for _, manager := range []string{"opensm", "heddle"} {
		t.Run(manager, func(t *testing.T) {
			b := testNet{name: "small", gen: []string{"xgft", "2", "4,4", "1,2"}}.build(t)
			sim, env := b.simulate(t)
			sock := strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
			if manager == "opensm" {
				conf, log := filepath.Join(b.dir, "opensm.conf"), filepath.Join(b.dir, "osm.log")
				if err := os.WriteFile(conf, []byte("force_log_flush TRUE\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				start(t, b.dir, []string{"OSM_TMP_DIR=" + b.dir, "OSM_CACHE_DIR=" + b.dir}, heddle,
					"attach", b.cas[0]+"@"+sock, "--", "opensm", "-F", conf, "-d", "1", "-e", "-f", log, "-D", "0x03")
				waitFile(t, log, "SUBNET UP")
			} else {
				sm := start(t, b.dir, nil, heddle, "attach", b.cas[0]+"@"+sock, "--", heddle, "sm", "--port", "umad:heddle0/1", "--api", "")
				sm.await("SUBNET UP\n", 0, upTime)
			}
			k := start(t, b.dir, []string{listenerEnv + "=1"}, heddle, "attach", b.cas[1]+"@"+sock, "--", os.Args[0])
			k.await("LISTENING\n", 0, upTime)
			// A manager repeats a Report whose response is late: the next one is another.
			var list []string
			for _, what := range []string{"down", "up"} {
				fmt.Fprintf(sim.In, "link %s %q[1]\n", what, b.cas[9])
				for from := 0; ; {
					at := k.await("REPORT [0-9a-f]+\n", from, upTime)
					lines := strings.Fields(k.Output()[:at])
					report := lines[len(lines)-1]
					if from = at; !slices.Contains(list, report) {
						list = append(list, report)
						break
					}
				}
			}
			all[manager] = list
		})
	}
	for i := range all["opensm"] {
		if i >= len(all["heddle"]) || all["heddle"][i] != all["opensm"][i] {
			t.Errorf("Report %d: heddle\n%s\nopensm\n%s", i, all["heddle"][i], all["opensm"][i])
		}
	}
}

// listenerEnv makes this test binary, run by heddle attach, a host that listens.
const listenerEnv = "INTEROP_LISTENER"

// listenForReports subscribes to traps 64 and 65 through the user-MAD device,
// and prints the Reports that come, without their transaction ids.
func listenForReports() {
	fail := func(err error) {
		if err != nil {
			fmt.Println("FAILED", err)
			os.Exit(1)
		}
	}
	port, err := umad.OpenPort(umad.Options{SAMethods: []ib.Method{ib.MethodReport}})
	fail(err)
	text, err := os.ReadFile("/sys/class/infiniband/heddle0/ports/1/sm_lid")
	fail(err)
	lid, err := strconv.ParseUint(strings.TrimSpace(string(text)), 0, 16)
	fail(err)
	sa := mad.Addr{LID: ib.LID(lid), QP: 1}
	subscribe := func(trap uint16) {
		var m ib.MAD
		wire.New(&m, ib.MethodSet, wire.AttrInformInfo, 0, 0)
		m.SetTID(uint64(trap))
		info := wire.InformInfo{
			LIDRangeBegin: wire.InformAllLIDs, IsGeneric: 1, Subscribe: 1, Type: wire.InformAllTypes, TrapNumber: trap, Producer: wire.InformAllProducers,
		}
		info.Put(wire.Data(&m))
		fail(port.Send(&mad.Packet{Addr: sa, LocalQP: 1, Timeout: upTime, Data: m[:]}))
	}
	subscribe(smp.TrapGIDInService)
	var p mad.Packet
	for answered := 0; ; {
		fail(port.Recv(&p))
		m := (*ib.MAD)(p.Data[:ib.MADLen])
		switch {
		case p.Status != mad.Received || m.Class() != ib.ClassSA:
		case m.Method() == ib.MethodGetResp && m.AttrID() == wire.AttrInformInfo:
			if m.Status() != 0 {
				fail(fmt.Errorf("subscription: %v", m.Status()))
			}
			if answered++; answered == 1 {
				subscribe(smp.TrapGIDOutOfService)
			} else {
				fmt.Println("LISTENING")
			}
		case m.Method() == ib.MethodReport:
			a := p
			a.LocalQP, a.Data = 1, slices.Clone(p.Data)
			a.Data[3] |= byte(ib.MethodResponseBit)
			fail(port.Send(&a))
			clear(p.Data[8:16])
			// OpenSM sends what its stack held where the notice has no field, and as its toggle and count.
			n := p.Data[wire.DataOffset : wire.DataOffset+wire.NoticeLen]
			clear(n[8:16])
			clear(n[32:64])
			fmt.Printf("REPORT %x\n", p.Data)
		}
	}
}
