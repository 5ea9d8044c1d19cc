package replica

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"heddle/internal/need"
)

// edit replaces a text of a file that occurs once in it.
type edit struct{ file, old, new string }

// mutation is a broken rule. A test fails with it: run, or the schedule seed of TestPair if that is
// not 0. If neither is there, why says which other rule has the same effect.
type mutation struct {
	name  string
	edits []edit
	run   string
	seed  uint64
	why   string
}

var mutations = []mutation{
	{
		name: "alone at half the time",
		edits: []edit{{
			"active.go",
			"return c.past(silence, c.cfg.Alone) && c.master(silence.Add(c.cfg.Alone))",
			"return c.past(silence, c.cfg.Alone/2) && c.master(silence.Add(c.cfg.Alone / 2))",
		}},
		seed: 19,
	},
	{
		name:  "look before the silence",
		edits: []edit{{"active.go", "c.master(silence.Add(c.cfg.Alone))", "c.master(silence)"}},
		why: "an active manager asks for a look in may alone, after Alone of silence, and look refuses one that is older than two " +
			"signs. A look that was asked for before a sign came is older than that when Alone has passed again.",
	},
	{
		name:  "echo of another start",
		edits: []edit{{"core.go", "p.EchoBoot != c.note.boot || p.Echo == 0", "p.Echo == 0"}},
		run:   "TestEchoOfOtherStart",
	},
	{
		name:  "alone without the fence",
		edits: []edit{{"active.go", " && (!a.over || a.fenced)", ""}},
		why: "who took over from a silent manager and is not fenced when the lease ends is standby (WhyLate), and the lease ends before " +
			"Alone. After a handover the old manager has stopped, and one that waits goes on by a sign alone.",
	},
	{
		name:  "loud terms not by the clock",
		edits: []edit{{"core.go", "c.term.Number = max(c.term.Number, min(wall, maxTerm))", "_ = wall"}},
		run:   "TestBlindTerms",
	},
	{
		name: "old entries taken, not refused",
		edits: []edit{{
			"core.go",
			"\tif t.Compare(c.term) < 0 {\n\t\tc.out.Sends = append(c.out.Sends, Refused{c.term})\n\t\treturn false\n\t}\n\treturn t == c.term",
			"\treturn true",
		}},
		why: "a term that is newer than the sender's is this manager's own. Its first entry is on the disk then, and journal.Follows " +
			"refuses entries of an older term behind it; if it could not be written, the sender is the manager whose entries count.",
	},
	{
		name:  "ack of another term",
		edits: []edit{{"active.go", "a.met != nil && m.Term == c.term && m.Number", "a.met != nil && m.Number"}},
		why: "a term begins with the end of the standby's stream (begin), and an acknowledgment counts after the hello of a new one. " +
			"On that stream a standby takes entries of this term alone, so it acknowledges no others.",
	},
	// Rules that keep what counted alone, and fork files.
	{
		name:  "a term in which nothing counts does not give way",
		edits: []edit{{"active.go", "if p := &c.peer; !a.secured &&", "if p := &c.peer; false && !a.secured &&"}},
		run:   "TestSplitKeeps",
	},
	{
		name:  "a standby does not say that entries counted there alone",
		edits: []edit{{"core.go", "return c.may || c.standby.claims", "return c.may"}},
		run:   "TestSplitKeeps",
	},
	{
		name:  "a takeover although another manager is master",
		edits: []edit{{"standby.go", "p.Port && p.Fabr && s.held == 0", "p.Port && p.Fabr"}},
		run:   "TestNoTurns",
	},
	{
		name:  "no fork file",
		edits: []edit{{"standby.go", "Counted: c.note.solo", "Counted: false"}},
		run:   "TestForkFile",
	},
	{
		name:  "a fork file of what nobody was told of",
		edits: []edit{{"standby.go", "Counted: c.note.solo", "Counted: true"}},
		run:   "TestNoForkFile",
	},
	{
		name:  "a handover without an heir",
		edits: []edit{{"active.go", "!a.handing && a.heir(c)", "a.granted && !a.handing"}},
		run:   "TestHandoverAlone",
	},
	{
		name:  "alone by the end of a process, although a third manager wrote to the port",
		edits: []edit{{"active.go", "case !a.over && a.third == 0 && c.heard", "case !a.over && c.heard"}},
		run:   "TestEndedAfterThird",
	},
	{
		name:  "the lease bounds the fence of a handover",
		edits: []edit{{"core.go", "if why == WhySilence {\n\t\tlapse", "if why == WhySilence || why == WhyHandover {\n\t\tlapse"}},
		run:   "TestLateFenceOfHandover",
	},
	{
		name:  "the word of an old program is not understood",
		edits: []edit{{"note.go", "b[1]&(noteSolo|noteAlone) != 0", "b[1]&noteSolo != 0"}},
		run:   "TestNoteOfOldProgram",
	},
	{
		name:  "a standby copies at once with an ill disk",
		edits: []edit{{"standby.go", "!s.hello && !s.illness.on", "!s.hello"}},
		run:   "TestIllDisk",
	},
	{
		name:  "a disk that fails is asked again without a pause",
		edits: []edit{{"standby.go", "if len(c.disk) > 0 || !c.past(x.next, 0) {", "if len(c.disk) > 0 {"}},
		run:   "TestIllDisk",
	},
	{
		name:  "each offer to a standby is news",
		edits: []edit{{"active.go", "if a.said != k {", "if a.said != k || true {"}},
		run:   "TestIllDisk",
	},
}

// mutated returns the files of a mutation.
func (m *mutation) mutated(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, e := range m.edits {
		s, ok := files[e.file]
		if !ok {
			b, err := os.ReadFile(e.file)
			if err != nil {
				t.Fatal(err)
			}
			s = string(b)
		}
		if n := strings.Count(s, e.old); n != 1 {
			t.Fatalf("%s: %q is %d times in %s", m.name, e.old, n, e.file)
		}
		files[e.file] = strings.Replace(s, e.old, e.new, 1)
	}
	return files
}

// TestMutations: the table fits the rules, and each row says what tests it.
func TestMutations(t *testing.T) {
	for i := range mutations {
		m := &mutations[i]
		m.mutated(t)
		if m.run == "" && m.seed == 0 && m.why == "" {
			t.Errorf("%s: nothing tests it", m.name)
		}
	}
}

// TestMutationsCaught builds the package with each broken rule, and runs the test that must fail.
func TestMutationsCaught(t *testing.T) {
	need.Long(t)
	tool := need.Tool(t, "go")
	for i := range mutations {
		m := &mutations[i]
		t.Run(m.name, func(t *testing.T) {
			if m.run == "" && m.seed == 0 {
				t.Skip(m.why)
			}
			dir := t.TempDir()
			overlay := map[string]map[string]string{"Replace": {}}
			for name, text := range m.mutated(t) {
				path, err := filepath.Abs(name)
				if err != nil {
					t.Fatal(err)
				}
				overlay["Replace"][path] = filepath.Join(dir, name)
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			b, err := json.Marshal(overlay)
			if err != nil {
				t.Fatal(err)
			}
			list, bin := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "replica.test")
			if err := os.WriteFile(list, b, 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(tool, "test", "-c", "-overlay", list, "-o", bin, ".").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			run, env := m.run, os.Environ()
			if run == "" {
				run, env = "TestPair", append(env, fmt.Sprint("HEDDLE_SEED=", m.seed))
			}
			cmd := exec.Command(bin, "-test.run", "^"+run+"$")
			cmd.Env = env
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: "+run) {
				t.Errorf("%s does not fail: %v\n%.2000s", run, err, out)
			}
		})
	}
}
