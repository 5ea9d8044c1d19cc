package nue

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/route"
	"heddle/route/check"
)

func loadNet(t *testing.T, p string) *fabric.Graph {
	f, err := os.Open(p)
	if err != nil {
		t.Fatal(err)
	}
	fab, err := fabric.ReadNetlist(bufio.NewReader(f), fabric.NetlistOptions{Name: p})
	if err != nil {
		t.Fatal(err)
	}
	fabric.AssignLIDs(fab, 1)
	g, err := fab.Graph(fabric.GraphOptions{VLs: 8})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestX(t *testing.T) {
	ps, _ := filepath.Glob("/tmp/e4/nets/*.net")
	for _, p := range ps {
		if strings.Contains(p, "/ft") {
			continue
		}
		g := loadNet(t, p)
		for _, vls := range []int{1, 2, 4, 8} {
			tb, _ := Engine{}.Compute(g, route.Options{MaxVLs: vls, Workers: 2})
			at := time.Now()
			tb, _ = Engine{}.Compute(g, route.Options{MaxVLs: vls, Workers: 2})
			d := time.Since(at)
			r := check.Verify(g, tb, check.Options{})
			if r.Err() != nil {
				t.Fatal(r.Err())
			}
			t.Logf("%s.%d lanes %d max %d hops %.3f sw %d %v", filepath.Base(p), vls, r.VLsUsed, r.MaxChannelLoad, r.AvgHops, r.CreditCyclesSwitch, d)
		}
	}
}
