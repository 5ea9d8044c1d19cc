package interop

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"heddle/ib"
	"heddle/internal/ibtools"
	"heddle/internal/need"
	"heddle/partition"
)

const partitionNet = `Switch	8 "S-1"
[1]	"H-1"[1]
[2]	"H-2"[1]
[3]	"H-3"[1]
[4]	"H-4"[1]

Hca	1 "H-1"
[1]	"S-1"[1]

Hca	1 "H-2"
[1]	"S-1"[2]

Hca	1 "H-3"
[1]	"S-1"[3]

Hca	1 "H-4"
[1]	"S-1"[4]
`

// TestPartitionsAsOpenSM: from one partitions.conf OpenSM gives the same keys to
// the same ports, and makes the same groups, as the policy that Parse reads; and
// what OpenSM cannot read Parse refuses too.
func TestPartitionsAsOpenSM(t *testing.T) {
	for _, tool := range []string{"opensm", "ibsim", "smpquery", "saquery"} {
		need.Tool(t, tool)
	}
	// Not more than three groups: ibsim's protocol carries no longer answer.
	for _, c := range []struct {
		name, text string
		bad        bool // OpenSM falls back to one open partition
	}{
		{name: "overrides", text: "Default : ALL=full, ALL_SWITCHES ;\na=5: GUID2=full,GUID2=limited; b=6: GUID2, GUID2=full; c=7:ALL=full, GUID3=limited;\nd=8: GUID4=full, ALL ;"},
		{name: "keys left out", text: "a : SELF; b=5:SELF; a: ALL; c=1:GUID2=full; d:SELF; :GUID3; , ipoib : SELF; e=0x8000:ALL_CAS; f=0x8009,foo=1:SELF=bar;"},
		{name: "prefixes", text: "a=5,def=f: A=l, SE; b=6: ALL_S=f, ALL_C, NONE; c = 0x7 , indx0 , ipoi , rate = 16, mtu = 5 :\n A # all\n;"},
		{name: "groups", text: "a=5,ipoib:\n mgid=ff12:401b::16,rate=3\n mgid=ff12:401b:ffff::17,mtu=4\n mgid=ff12:601b::2,mtu=5\n mgid=ff12::1,sl=1,Q_Key=0xDEADBEEF,rate=3,mtu=2\n mgid=ff12:401b::18,scope=5\n ALL=full;"},
		{name: "scopes", text: "b=6:\nmgid=ff12::2,scope=5,scope=8\nmgid=ff12::3\n SELF;"},
		{name: "no members", text: "a=5 : ; b=6,ipoib : NONE ; c=7:0xdead;"},
		{name: "bad GUID", text: "Default=0x7fff : ALL ;\na=5: 0x1, all ;", bad: true},
		{name: "no members part", text: "a=5 ;", bad: true},
		{name: "two statements in one", text: "a=5:SELF=full\nb=6:ALL;", bad: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			net := filepath.Join(dir, "net")
			if err := os.WriteFile(net, []byte(partitionNet), 0o644); err != nil {
				t.Fatal(err)
			}
			b, _ := ibtools.Ibsim(t, net, socketName())
			ask := func(node string, argv ...string) string {
				r := b.Run(upTime, node, argv...)
				if r.Err != nil || r.Code != 0 {
					t.Fatalf("%v at %s: %v, exit status %d\n%s", argv, node, r.Err, r.Code, tail(r.Out))
				}
				return r.Out
			}
			nodes := []string{"H-1", "H-2", "H-3", "H-4", "S-1"}
			guids := map[string]ib.GUID{}
			text := c.text
			for i, n := range nodes {
				m := regexp.MustCompile(`PortGuid:\.+(0x[0-9a-f]+)`).FindStringSubmatch(ask(n, "smpquery", "-D", "nodeinfo", "0"))
				g, err := ib.ParseGUID(m[1])
				if err != nil {
					t.Fatal(err)
				}
				guids[n] = g
				text = strings.ReplaceAll(text, "GUID"+strconv.Itoa(i+1), g.String())
			}
			conf := filepath.Join(dir, "partitions.conf")
			if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			b.OpenSM(t, "H-1", upTime, "-P", conf)
			pol, _, err := partition.Parse(strings.NewReader(text), "partitions.conf")
			if c.bad {
				if err == nil {
					t.Errorf("Parse takes what OpenSM does not")
				}
				if k := pkeysAt(t, ask("H-2", "smpquery", "-D", "pkeys", "0")); !slices.Equal(k, []ib.PKey{ib.PKeyDefaultFull}) {
					t.Errorf("OpenSM gives %v, and takes the file", k)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			grants := partition.Resolve(pol)
			for _, n := range nodes {
				class := partition.CA
				if n == "S-1" {
					class = partition.Switch
				}
				want := slices.Clone(grants.Of(class, guids[n], nil, n == "H-1"))
				slices.Sort(want)
				if got := pkeysAt(t, ask(n, "smpquery", "-D", "pkeys", "0")); !slices.Equal(got, want) {
					t.Errorf("%s: OpenSM gives %v, Parse %v", n, got, want)
				}
			}
			var want, got []string
			for i := range pol.Partitions {
				for _, g := range pol.Partitions[i].Groups {
					want = append(want, g.MGID.String())
				}
			}
			for _, m := range regexp.MustCompile(`MGID\.+(ff[0-9a-f:]+)`).FindAllStringSubmatch(ask("H-1", "saquery", "-g"), -1) {
				got = append(got, m[1])
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("OpenSM makes the groups %v, Parse %v\n%s", got, want, ask("H-1", "saquery", "-g"))
			}
		})
	}
}

// pkeysAt reads what smpquery pkeys prints, ascending.
func pkeysAt(t *testing.T, text string) (keys []ib.PKey) {
	t.Helper()
	for line := range strings.Lines(text) {
		_, list, ok := strings.Cut(line, ": ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		for w := range strings.FieldsSeq(list) {
			k, err := ib.ParsePKey(w)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			if !k.IsEmpty() {
				keys = append(keys, k)
			}
		}
	}
	slices.Sort(keys)
	return keys
}
