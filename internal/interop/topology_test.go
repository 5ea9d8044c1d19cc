package interop

import (
	"path/filepath"
	"regexp"
	"testing"

	"heddle/internal/need"
)

// TestTopologyAsIbnetdiscover: 'heddle ctl topology' is, but for the date, what the unmodified
// ibnetdiscover prints from the manager's host, byte for byte.
func TestTopologyAsIbnetdiscover(t *testing.T) {
	need.Tool(t, "ibsim-run")
	need.Tool(t, "ibnetdiscover")
	for _, topo := range []string{"xgft,2,4,4,1,4", "dragonfly,4,2,2", "torus,4x4,hosts=2"} {
		t.Run(topo, func(t *testing.T) {
			dir, sock, addr := t.TempDir(), socketName(), need.Addr(t)
			up := start(t, dir, nil, heddle, "up", "--topo", topo, "--api", addr, "--socket", sock, "--token-file", filepath.Join(dir, "token"))
			up.await("SUBNET UP\n", 0, upTime)
			date := regexp.MustCompile(`generated on .*`)
			theirs := must(t, upTime, dir, []string{"IBSIM_SOCKNAME=" + sock, "SIM_HOST=host-1"}, "ibsim-run", "ibnetdiscover")
			ours := must(t, upTime, dir, nil, heddle, "ctl", "topology", "--api", addr)
			theirs, ours = date.ReplaceAllString(theirs, ""), date.ReplaceAllString(ours, "")
			if theirs != ours {
				at := 0
				for at < min(len(theirs), len(ours)) && theirs[at] == ours[at] {
					at++
				}
				t.Errorf("ibnetdiscover prints %d bytes, ctl topology %d; from byte %d:\n%.400s\nours:\n%.400s",
					len(theirs), len(ours), at, theirs[at:], ours[at:])
			}
		})
	}
}
