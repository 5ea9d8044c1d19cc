package hosts_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/fabric/hosts"
	"heddle/ib"
)

// cables puts adapters on switches: "n1 mlx5_0" to "A".
func cables(t testing.TB, on [][2]string) *fabric.Fabric {
	t.Helper()
	var b fabric.Builder
	switches, used := map[string]int{}, map[string]int{}
	for i, c := range on {
		s, ok := switches[c[1]]
		if !ok {
			s = b.AddSwitch(c[1], 200)
			switches[c[1]] = s
		}
		used[c[1]]++
		ca := b.AddCA(fmt.Sprintf("ca%d", i), 1)
		b.Node(ca).Desc = c[0]
		b.Connect(s, used[c[1]], ca, 1)
	}
	f, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestAll(t *testing.T) {
	f := cables(t, [][2]string{
		{"n10 mlx5_0", "A"},
		{"n2 mlx5_10", "B"},
		{"n2 mlx5_2", "A"},
		{"", "A"},
		{"MT4119 ConnectX5   Mellanox Technologies", "A"},
		{"-x", "A"},
		{strings.Repeat("x", 64), "A"},
		{"bad,name", "A"},
		{"given", "A"},
	})
	all, unnamed := hosts.All(f, map[ib.GUID]string{f.Nodes[f.Find("ca8")].GUID: "login1 left"})
	var got []string
	for _, h := range all {
		for _, r := range h.Rails {
			got = append(got, h.Name+"/"+f.Nodes[r.Port.Node].Desc+"/"+f.Nodes[r.Switch].ID)
		}
	}
	want := []string{"MT4119/MT4119 ConnectX5   Mellanox Technologies/A", "login1/given/A", "n2/n2 mlx5_2/A", "n2/n2 mlx5_10/B", "n10/n10 mlx5_0/A"}
	if !slices.Equal(got, want) {
		t.Errorf("hosts %q\nwant  %q", got, want)
	}
	var without []string
	for _, u := range unnamed {
		without = append(without, f.Nodes[u.Node].ID)
	}
	if want := []string{"ca3", "ca5", "ca6", "ca7"}; !slices.Equal(without, want) {
		t.Errorf("without a name %q, want %q", without, want)
	}
}

func TestNatural(t *testing.T) {
	sorted := []string{"", "a", "a1", "a01b", "a1b", "a2", "a010", "a10", "a10000000000000000000000", "b"}
	for i, a := range sorted {
		for j, b := range sorted {
			if got := hosts.Natural(a, b); (got < 0) != (i < j) || (got == 0) != (i == j) {
				t.Errorf("%q and %q: %d", a, b, got)
			}
		}
	}
}

// TestCheckRails: one wrong host after the other in two units of eight hosts with four rails.
func TestCheckRails(t *testing.T) {
	plan := func() [][2]string {
		var c [][2]string
		for u := range 2 {
			for h := range 8 {
				for r := range 4 {
					c = append(c, [2]string{fmt.Sprintf("u%dh%d mlx5_%d", u, h, r), fmt.Sprintf("leaf%d.%d", u, r)})
				}
			}
		}
		return c
	}
	text := func(f *fabric.Fabric, m hosts.Misplaced) string {
		var s strings.Builder
		s.WriteString(fmt.Sprintf("%s missing %d swapped %v:", m.Host, m.Missing, m.Swapped))
		for i, k := range m.Wrong {
			should := "none"
			if m.Should[i] >= 0 {
				should = f.Nodes[m.Should[i]].ID
			}
			s.WriteString(fmt.Sprintf(" %d on %s not %s", k, f.Nodes[m.On[i]].ID, should))
		}
		return s.String()
	}
	for name, c := range map[string]struct {
		change func(c [][2]string) [][2]string
		want   string
	}{
		"as planned": {func(c [][2]string) [][2]string { return c }, ""},
		"two cables of a host swapped": {
			func(c [][2]string) [][2]string { c[4*3+1][1], c[4*3+2][1] = c[4*3+2][1], c[4*3+1][1]; return c },
			"u0h3 missing 0 swapped [1 2]: 1 on leaf0.2 not leaf0.1 2 on leaf0.1 not leaf0.2",
		},
		"a cable to the other unit": {
			func(c [][2]string) [][2]string { c[4*9+3][1] = "leaf0.3"; return c },
			"u1h1 missing 0 swapped [0 0]: 3 on leaf0.3 not leaf1.3",
		},
		"an adapter gone": {
			func(c [][2]string) [][2]string { return slices.Delete(c, 4*5+1, 4*5+2) },
			"u0h5 missing 1 swapped [0 0]:",
		},
		"one rail": {
			func(c [][2]string) [][2]string {
				var one [][2]string
				for i := range c {
					if i%4 == 0 {
						one = append(one, c[i])
					}
				}
				return one
			}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := cables(t, c.change(plan()))
			all, _ := hosts.All(f, nil)
			u := hosts.CheckRails(all)
			var got []string
			for _, m := range u.Misplaced {
				got = append(got, text(f, m))
			}
			if strings.Join(got, "\n") != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if name != "one rail" && (u.Units != 2 || u.Rails != 4) {
				t.Errorf("%d units of %d rails", u.Units, u.Rails)
			}
		})
	}
}
