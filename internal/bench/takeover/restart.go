package takeover

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"heddle/api"
	"heddle/internal/bench/testbed"
	"heddle/mad"
	"heddle/sim"
	"heddle/subnet/checkpoint"
)

// A restarted is one restart.
type restarted struct {
	gap, stop, up         time.Duration // without an answer; from the signal to the end; to the subnet that is up
	unanswered            int           // queries
	lft, mft, lids, pkeys int
	first                 int // 1: it read the subnet before it answered
}

// Restart measures how long the SA of a manager alone does not answer while that is restarted.
func Restart(b *testbed.Testbed, base string, sizes []int) error {
	ways := []string{"-base", "cold", "warm"} // the program to compare with; without and with a checkpoint
	if base == "" {
		ways = ways[1:]
	}
	t := testbed.NewTable("Restarts of a manager alone", "hosts", "start", "times", "no answer, p50", "most", "SIGTERM to the end, p50", "to the subnet that is up, p50", "queries lost, p50", "Sets of LFTs", "of MFTs", "LIDs changed", "P_Keys changed", "subnet read first")
	for _, hosts := range sizes {
		rows, err := restartAt(b, base, hosts, ways)
		if err != nil {
			return fmt.Errorf("%d hosts: %w", hosts, err)
		}
		for _, way := range ways {
			list := rows[way]
			var gap, stop, up, lost []float64
			var sum restarted
			for _, x := range list {
				gap, stop, up, lost = append(gap, x.gap.Seconds()), append(stop, x.stop.Seconds()), append(up, x.up.Seconds()), append(lost, float64(x.unanswered))
				sum.lft, sum.mft, sum.lids, sum.pkeys, sum.first = sum.lft+x.lft, sum.mft+x.mft, sum.lids+x.lids, sum.pkeys+x.pkeys, sum.first+x.first
			}
			t.Row("%d|%s|%d|%.2f s|%.2f s|%.2f s|%.2f s|%.0f|%d|%d|%d|%d|%d", hosts, way, len(list), testbed.Median(gap), gap[len(gap)-1], testbed.Median(stop), testbed.Median(up),
				testbed.Median(lost), sum.lft, sum.mft, sum.lids, sum.pkeys, sum.first)
		}
	}
	return nil
}

// solo is a manager alone.
type solo struct {
	b             *testbed.Testbed
	s             *scene
	base          string // the program of -base
	dir, api, bin string // bin: the program of prog
	prog          *testbed.Program
}

func restartAt(b *testbed.Testbed, base string, hosts int, ways []string) (rows map[string][]restarted, err error) {
	name := b.Name()
	s, err := newScene(hosts, name)
	if err != nil {
		return nil, err
	}
	defer s.end()
	m := &solo{b: b, s: s, base: base, dir: filepath.Join(b.Dir, name)}
	if m.api, err = testbed.FreeAddress(); err != nil {
		return nil, err
	}
	defer func() { testbed.Kill(m.prog) }()
	rows = map[string][]restarted{}
	for range b.Runs {
		for _, way := range ways { // by turns: the machine changes
			x, err := m.round(way)
			if err != nil {
				return nil, fmt.Errorf("%s: %w\n%s", way, err, testbed.Tail(m.prog))
			}
			rows[way] = append(rows[way], x)
			fmt.Fprintf(os.Stderr, "bench: %d hosts, %s: no answer for %v, %d queries lost; ended after %v, up after %v; %d Sets of LFTs, %d of MFTs\n", hosts, way, x.gap, x.unanswered, x.stop, x.up, x.lft, x.mft)
		}
	}
	return rows, nil
}

// start starts a program.
func (m *solo) start(bin string) (err error) {
	if m.bin, err = bin, os.MkdirAll(m.dir, 0o700); err != nil {
		return err
	}
	m.prog, err = testbed.Launch(m.dir, []string{"HEDDLE_RUNTIME_DIR=" + filepath.Join(m.dir, "run")}, bin, "sm", "--port", "ibsim:"+m.s.nodes[0]+"@"+m.s.sock,
		"--state", filepath.Join(m.dir, "state"), "--api", m.api, "--claim-wait", "1m", "--log-level", "info")
	return err
}

// settled waits until the manager has nothing to do, and no host waits for it.
func (m *solo) settled() error {
	var err error
	for end := time.Now().Add(waitLimit); time.Now().Before(end); time.Sleep(poll) {
		var st api.Status
		if err = testbed.AskAPI(m.api, "/v1/status", &st); err == nil && st.SubnetUp && st.Phase == "idle" && m.s.joinedAll(m.s.lidOf(0)) {
			return m.s.calm()
		}
	}
	return fmt.Errorf("the manager does not come to rest within %v: %w", waitLimit, err)
}

// round restarts the manager once.
func (m *solo) round(way string) (x restarted, err error) {
	bin := map[bool]string{true: m.base, false: m.b.Heddle}[way == "-base"]
	if m.bin != bin {
		if m.prog != nil {
			m.prog.Stop(testbed.EndSignal)
		}
		if err := m.start(bin); err != nil {
			return x, err
		}
	}
	if err := m.settled(); err != nil {
		return x, err
	}
	before, was := m.s.look(), m.prog
	m.s.ask(true)
	defer m.s.ask(false)
	time.Sleep(beforeFault)
	m.s.begin(m.s.lidOf(0))
	begun := time.Now()
	was.Stop(testbed.EndSignal)
	x.stop = time.Since(begun)
	if way == "cold" {
		if err := os.Remove(filepath.Join(m.dir, "state", checkpoint.FileName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return x, err
		}
	}
	var started mad.Time
	m.s.d.Do(func(net *sim.Subnet) { started = net.Now() })
	if err := m.start(bin); err != nil {
		return x, err
	}
	if _, err := m.prog.Await("SUBNET UP\n", waitLimit); err != nil {
		return x, err
	}
	x.up = time.Since(begun)
	if x.first = 1 - strings.Count(m.prog.Output(), "published before its restart"); x.first == 1 && way == "warm" {
		fmt.Fprintf(os.Stderr, "bench: a checkpoint was not used\n%s\n%s\n", testbed.Last(was.Output()), testbed.Last(m.prog.Output()))
	}
	if err := m.s.await("an answer", func(*sim.Subnet) bool { return m.s.last > started }); err != nil {
		return x, err
	}
	m.s.d.Do(func(*sim.Subnet) { x.gap, x.unanswered = m.s.silent, len(m.s.open) })
	after := m.s.look()
	x.lft, x.mft = int(after.lft-before.lft), int(after.mft-before.mft)
	x.lids, x.pkeys = after.changed(&before)
	return x, nil
}
