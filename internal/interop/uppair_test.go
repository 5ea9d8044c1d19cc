package interop

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"heddle/internal/need"
)

var upPairPID = regexp.MustCompile(`manager [12]: pid (\d+),$`)

// TestUpPairEnds: the managers of 'heddle up --pair' die with it, even if it is killed.
func TestUpPairEnds(t *testing.T) {
	p := start(t, t.TempDir(), nil, heddle, "up", "--pair", "--topo", "mesh,2x2", "--api", "127.0.0.1:0", "--socket", socketName())
	var pids []int
	for from := 0; len(pids) < 2; {
		end := p.await(`manager [12]: pid \d+,`, from, upTime)
		m := upPairPID.FindStringSubmatch(p.Output()[from:end])
		pid, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		pids, from = append(pids, pid), end
	}
	p.stop(syscall.SIGKILL)
	for _, pid := range pids {
		for end := time.Now().Add(need.Patience); runs(pid); {
			if time.Now().After(end) {
				t.Fatalf("manager %d runs without its subnet", pid)
			}
			<-time.After(10 * time.Millisecond)
		}
	}
}

// runs reports whether a process has not ended, though nobody may have waited for it.
func runs(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(b), ") ")
	return err == nil && !strings.HasPrefix(state, "Z")
}
