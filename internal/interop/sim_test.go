package interop

import (
	"strings"
	"syscall"
	"testing"

	"heddle/internal/need"
)

// TestOpenSMOnSim: OpenSM brings up a fabric of heddle sim, and real tools verify it.
func TestOpenSMOnSim(t *testing.T) {
	for _, n := range testNets {
		t.Run(n.name, func(t *testing.T) {
			if n.long {
				need.Long(t)
			}
			need.Tool(t, "opensm")
			b := n.build(t)
			_, env := b.simulate(t)
			osm := b.opensm(t, env, b.sm, 0)
			osm.await("SUBNET UP", 0, upTime)
			checkTools(t, &b, env, false)
			osm.stop(syscall.SIGINT)
		})
	}
}

// TestManageSim: heddle brings up a fabric of heddle sim through ibsim's protocol, and
// real tools verify it.
func TestManageSim(t *testing.T) {
	for _, n := range testNets {
		t.Run(n.name, func(t *testing.T) {
			if n.long {
				need.Long(t)
			}
			need.Tool(t, "smpquery")
			b := n.build(t)
			_, env := b.simulate(t)
			sm := start(t, b.dir, nil, heddle, "sm", "--api", "", "--port", "ibsim:"+b.sm+"@"+strings.TrimPrefix(env[0], "IBSIM_SOCKNAME="))
			sm.await("SUBNET UP\n", 0, upTime)
			checkTools(t, &b, env, true)
			if err := sm.stop(syscall.SIGTERM); err != nil {
				t.Errorf("heddle sm ended with %v on SIGTERM", err)
			}
		})
	}
}
