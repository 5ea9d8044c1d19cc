package umadfs

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"heddle/internal/abitest"
	"heddle/internal/need"
	"heddle/internal/umadabi"
	"heddle/sim"
	"heddle/transport/umad"
)

func init() { children["abi"] = abiChild }

// abiChild runs the checks of internal/abitest, which the real kernel
// has to pass too (make test-kernel), on the devices it sees.
func abiChild() int {
	devs, err := umad.Discover("")
	if err != nil || len(devs) == 0 {
		fmt.Println("FAIL discover:", err)
		return 1
	}
	to := &devs[len(devs)-1]
	e := &abitest.Env{
		Sys: umad.DefaultSys, Dev: umad.DefaultDev, A: devs[0].Umad, B: to.Umad,
		Issm: devs[0].Issm, CA: devs[0].CA, Port: devs[0].Port, SMI: true, ShortTID: true, WakesReads: true,
		To: umadabi.Header{LID: uint16(to.LID)},
		Remove: func() error {
			// The test's side has the key to the socket: it is told so.
			fmt.Println("REMOVE")
			return nil
		},
	}
	if grh, _ := strconv.ParseBool(os.Getenv("HEDDLE_TEST_GRH")); grh {
		e.To.GRHPresent, e.To.GID, e.To.HopLimit = true, to.GIDs[0], 64
	}
	if abitest.Run(e, os.Stdout) > 0 {
		return 1
	}
	return 0
}

// TestABI: the virtual device behaves as the kernel's does, from a port to
// itself, to another port, and with a GRH.
func TestABI(t *testing.T) {
	tool(t, "opensm")
	for _, c := range []struct{ name, nodes, grh string }{
		{"loopback", "H2", "0"}, {"two nodes", "H2,H3", "0"}, {"GRH", "H2,H3", "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, smallNet(t), sim.Config{Seed: 1})
			l.opensm("H1").wait("SUBNET UP", need.Patience)
			argv := append([]string{"env", "HEDDLE_TEST_GRH=" + c.grh}, l.self("abi")...)
			j := l.start(c.nodes, argv...)
			j.wait("REMOVE", need.Patience)
			if err := l.server.Unplug("H2"); err != nil {
				t.Error(err)
			}
			<-j.done
			if j.code != 0 || j.err != nil {
				t.Errorf("exit status %d, %v", j.code, j.err)
			}
			t.Log("\n" + j.log.String())
		})
	}
}
