package interop

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/sim"
	"heddle/sim/ibsimd"
	"heddle/sim/live"
	"heddle/store/boltdb"
)

// upgradeFabric is what older versions managed when the fixtures were made: do not change it.
// Two spines, three leaves, six hosts, of which H-3 and H-4 can run virtual machines.
func upgradeFabric(t *testing.T) *fabric.Fabric {
	t.Helper()
	b := new(fabric.Builder)
	var spines, leaves []int
	for i := range 2 {
		spines = append(spines, b.AddSwitch(fmt.Sprintf("S-%d", i+1), 8))
	}
	for i := range 3 {
		l := b.AddSwitch(fmt.Sprintf("L-%d", i+1), 8)
		leaves = append(leaves, l)
		for j, s := range spines {
			b.Connect(l, 7+j, s, i+1)
		}
	}
	for i := range 6 {
		h := b.AddCA(fmt.Sprintf("H-%d", i+1), 1)
		b.Node(h).Desc = fmt.Sprintf("H-%d", i+1)
		b.Connect(h, 1, leaves[i/2], i%2+1)
	}
	f, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// request is one Set that a manager sent, by directed route from H-1.
type request struct {
	Node string
	Attr ib.AttrID
	Mod  uint32
	Data []byte
}

// upgradeBench is the simulated fabric, served to managers.
type upgradeBench struct {
	t    *testing.T
	dir  string
	sock string
	fab  *fabric.Fabric
	d    *live.Driver
	sets []request     // since it was cleared; under the driver's lock
	news chan struct{} // something changed
}

func newUpgradeBench(t *testing.T, before []request) *upgradeBench {
	t.Helper()
	b := &upgradeBench{t: t, dir: t.TempDir(), fab: upgradeFabric(t), news: make(chan struct{}, 1)}
	s, err := sim.New(b.fab, sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []string{"H-3", "H-4"} {
		if err := s.AddHypervisor(h, 1, sim.Hypervisor{Model: sim.SharedPort, VFs: 4}); err != nil {
			t.Fatal(err)
		}
	}
	b.replay(s, before)
	s.OnChange = func(c sim.Change) {
		if c.Kind == sim.ChangeSet {
			b.sets = append(b.sets, request{b.fab.Nodes[c.Node].ID, c.Attr, c.AttrMod, bytes.Clone(c.Data)})
		}
		select {
		case b.news <- struct{}{}:
		default:
		}
	}
	b.d = live.New(s)
	t.Cleanup(b.d.Close)
	b.sock = serve(t, b.d, ibsimd.Options{SockName: socketName()})
	return b
}

// replay gives the devices what a manager once set.
func (b *upgradeBench) replay(s *sim.Subnet, sets []request) {
	e, err := s.Attach("H-1")
	if err != nil {
		b.t.Fatal(err)
	}
	defer e.Close()
	paths := b.paths("H-1")
	for i := range sets {
		r := &sets[i]
		done := false
		e.OnPacket = func(p *mad.Packet) {
			done = smp.StatusOf((*ib.MAD)(p.Data[:ib.MADLen])) == ib.StatusOK
		}
		var m ib.MAD
		smp.NewDR(&m, ib.MethodSet, r.Attr, r.Mod, 0, paths[r.Node])
		m.SetTID(uint64(i + 1))
		copy(smp.Data(&m), r.Data)
		e.Send(&mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Data: m[:]})
		s.RunUntil(s.Now())
		if !done {
			b.t.Fatalf("the device refuses Set %d, %v of %s", i, r.Attr, r.Node)
		}
	}
}

// paths are directed routes from a node.
func (b *upgradeBench) paths(from string) map[string][]byte {
	out := map[string][]byte{from: {}}
	for todo := []int{b.fab.Find(from)}; len(todo) > 0; todo = todo[1:] {
		n := &b.fab.Nodes[todo[0]]
		for p := 1; p < len(n.Ports); p++ {
			if peer := n.Ports[p].Peer; peer.Node >= 0 {
				if q := &b.fab.Nodes[peer.Node]; out[q.ID] == nil {
					out[q.ID] = append(slices.Clone(out[n.ID]), byte(p))
					todo = append(todo, int(peer.Node))
				}
			}
		}
	}
	return out
}

// held is what the devices hold, one line each.
func (b *upgradeBench) held() (lines []string) {
	b.d.Do(func(s *sim.Subnet) {
		for _, e := range s.LIDs() {
			lines = append(lines, fmt.Sprintf("LID %+v", e))
		}
		for i := range b.fab.Nodes {
			n := &b.fab.Nodes[i]
			for p := range n.Ports {
				if n.IsSwitch() || p > 0 {
					lines = append(lines, fmt.Sprintf("P_Keys %s/%d %v", n.ID, p, s.PKeys(i, p, nil)))
				}
			}
			if n.IsSwitch() {
				lines = append(lines, fmt.Sprintf("LFT %s %v", n.ID, s.LFT(i, nil)))
				for mlid := ib.LID(0xC000); mlid < 0xC010; mlid++ {
					lines = append(lines, fmt.Sprintf("MFT %s %v %v", n.ID, mlid, s.MFT(i, mlid)))
				}
			}
		}
	})
	return lines
}

// until waits for a state of the devices.
func (b *upgradeBench) until(what string, is func(s *sim.Subnet) bool) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), upTime)
	defer cancel()
	for ok := false; !ok; {
		if b.d.Do(func(s *sim.Subnet) { ok = is(s) }); ok {
			return
		}
		select {
		case <-b.news:
		case <-ctx.Done():
			b.t.Fatalf("the devices never came to: %s", what)
		}
	}
}

// manager is a version of heddle and its state.
type manager struct {
	b             *upgradeBench
	binary, state string
	partitions    bool // it has partitions and an SA
	groups        bool // hosts can join groups
	machines      bool // it has virtual machines
	engine        string
}

// command is the version's command line. Older versions refuse HEDDLE_RUNTIME_DIR.
func (m *manager) command(args ...string) (name string, all []string) {
	return "env", append([]string{"-u", "HEDDLE_RUNTIME_DIR", m.binary}, args...)
}

func (m *manager) run(args ...string) (string, error) {
	name, all := m.command(args...)
	return run(m.b.t, upTime, m.b.dir, nil, name, all...)
}

// can finds out what a version can do.
func (m *manager) can() {
	help, _ := m.run("sm", "--help")
	m.partitions = strings.Contains(help, "--partitions ")
	help, _ = m.run("ctl", "--help")
	m.machines = strings.Contains(help, "\n  vm ")
}

func (m *manager) args() []string {
	args := []string{"sm", "--port", "ibsim:H-1@" + m.b.sock, "--state", m.state, "--api", "", "--api-socket", filepath.Join(m.b.dir, "api")}
	if m.engine != "" {
		args = append(args, "--engine", m.engine)
	}
	if m.partitions {
		path := filepath.Join(m.b.dir, "partitions.conf")
		var guids []string
		for _, h := range []string{"H-2", "H-5"} {
			guids = append(guids, fmt.Sprintf("%#x=full", uint64(m.b.fab.Nodes[m.b.fab.Find(h)].Ports[1].GUID)))
		}
		text := "Default=0x7fff,ipoib:ALL=full;\nblue=0x2:" + strings.Join(guids, ",") + ";\n"
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			m.b.t.Fatal(err)
		}
		args = append(args, "--partitions", path)
	}
	return args
}

// start brings the subnet up.
func (m *manager) start() program {
	m.b.t.Helper()
	name, args := m.command(m.args()...)
	p := start(m.b.t, m.b.dir, nil, name, args...)
	p.await("SUBNET UP\n", 0, upTime)
	return p
}

func (m *manager) ctl(args ...string) string {
	m.b.t.Helper()
	out, err := m.run(append(append([]string{"ctl"}, args...), "--api", "unix:"+filepath.Join(m.b.dir, "api"))...)
	if err != nil {
		m.b.t.Fatalf("ctl %s: %v\n%s", strings.Join(args, " "), err, tail(out))
	}
	return out
}

// use has hosts join and machines run, as far as the version has groups and machines.
func (m *manager) use() {
	b := m.b
	if m.groups {
		for _, h := range []string{"H-2", "H-5"} {
			a := ask(b.t, b.sock, h)
			r := sa.MCMemberRecord{MGID: mustGID("ff12:401b:ffff::ffff:ffff"), PortGID: gid(a.c.PortGUID()), JoinState: sa.JoinFull}
			if _, st := a.member(a.smLID(), ib.MethodSet, needed, 0, &r); st != 0 {
				b.t.Fatalf("%s joins: %v", h, st)
			}
			a.c.Close()
		}
		b.until("both members have the group", func(s *sim.Subnet) bool {
			return slices.Contains(s.MFT(b.fab.Find("L-1"), 0xC000), 2) && slices.Contains(s.MFT(b.fab.Find("L-3"), 0xC000), 1)
		})
	}
	if m.partitions {
		blue := func(s *sim.Subnet, node string, port int) bool {
			return slices.Contains(s.PKeys(b.fab.Find(node), port, nil), 0x8002)
		}
		b.until("the members of blue and the switches before them have its P_Key", func(s *sim.Subnet) bool {
			return blue(s, "H-2", 1) && blue(s, "H-5", 1) && blue(s, "L-1", 2) && blue(s, "L-3", 1)
		})
	}
	if m.machines {
		m.ctl("vm", "create", "web", "--pkey", "0x8001", "--at", "H-3")
		m.ctl("vm", "create", "db", "--pkey", "0x8001", "--at", "H-4")
		b.until("both machines have their P_Key", func(s *sim.Subnet) bool {
			return slices.Contains(s.PKeys(b.fab.Find("H-3"), 1, nil), 0x8001) && slices.Contains(s.PKeys(b.fab.Find("H-4"), 1, nil), 0x8001)
		})
	}
}

// allTables are the attributes that a manager is not to set on a fabric that another one brought up.
var allTables = []ib.AttrID{smp.AttrLFT, smp.AttrMFT, smp.AttrPKeyTable, smp.AttrGUIDInfo}

// takes starts a manager on a fabric that another version brought up, and returns what it set. It
// fails if in the end a LID, a table or a P_Key is another one, or if it set one of tables.
func (m *manager) takes(tables []ib.AttrID) map[ib.AttrID]int {
	b := m.b
	b.t.Helper()
	before := b.held()
	b.d.Do(func(*sim.Subnet) { b.sets = nil })
	p := m.start()
	if m.machines {
		if out := m.ctl("vm", "list"); strings.Count(out, "attached") != 2 {
			b.t.Errorf("the machines are not there:\n%s", out)
		}
	}
	if m.partitions && m.binary == heddle {
		m.settle()
	}
	if err := p.stop(syscall.SIGINT); err != nil {
		b.t.Errorf("the manager ended with %v\n%s", err, tail(p.Output()))
	}
	counts := map[ib.AttrID]int{}
	b.d.Do(func(*sim.Subnet) {
		for _, r := range b.sets {
			counts[r.Attr]++
		}
	})
	after := b.held()
	for i := range before {
		if before[i] != after[i] {
			b.t.Errorf("%s\nbecame\n%s", before[i], after[i])
		}
	}
	for _, a := range tables {
		if counts[a] > 0 {
			b.t.Errorf("%d Sets of %v were sent\n%s", counts[a], a, tail(p.Output()))
		}
	}
	return counts
}

// settle waits until all ports have acknowledged their P_Key tables, which may be after SUBNET UP.
func (m *manager) settle() {
	m.b.t.Helper()
	for deadline := time.Now().Add(upTime); ; {
		var st struct {
			Partitions struct {
				Settled bool `json:"settled"`
			} `json:"partitions"`
		}
		out := m.ctl("status", "--json")
		if err := json.Unmarshal([]byte(out), &st); err != nil {
			m.b.t.Fatalf("%v in %s", err, out)
		}
		if st.Partitions.Settled {
			return
		}
		if time.Now().After(deadline) {
			m.b.t.Fatalf("P_Key tables are not settled: %s", out)
		}
		<-time.After(100 * time.Millisecond) // they are read again 5 s after a start
	}
}

// fixture is what an older version left, in testdata/upgrade.
type fixture struct {
	Partitions, Machines bool
	Engine               string    // with which this version leaves the routes as they are; "": any
	Sets                 []request // that it sent
	State                []byte    // its state file
}

const fixtures = "testdata/upgrade"

func (f *fixture) write(path string) error {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := gob.NewEncoder(z).Encode(f); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

func readFixture(t *testing.T, path string) (f fixture) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if b, err = io.ReadAll(z); err != nil {
		t.Fatal(err)
	}
	if err := gob.NewDecoder(bytes.NewReader(b)).Decode(&f); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestUpgrade: this version takes over the state and the fabric of each older version, and changes
// nothing. tools/upgrade.sh makes the fixtures with the older versions themselves. Without HEDDLE_LONG it is the last
// version of each kind of file.
func TestUpgrade(t *testing.T) {
	list, err := filepath.Glob(filepath.Join(fixtures, "*.gz"))
	if err != nil || len(list) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	for _, path := range list {
		at := slices.IndexFunc(sections, func(s section) bool { return s.name+".gz" == filepath.Base(path) })
		if at < 0 {
			t.Fatalf("%s is of no section", path)
		}
		if next := at + 1; os.Getenv("HEDDLE_LONG") == "" && next < len(sections) && sections[next].older == sections[at].older {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(path), ".gz"), func(t *testing.T) {
			t.Parallel() // each waits 5 s for tables that are read again
			f := readFixture(t, path)
			b := newUpgradeBench(t, f.Sets)
			m := &manager{b: b, binary: heddle, state: filepath.Join(b.dir, "state"), partitions: f.Partitions, machines: f.Machines, engine: f.Engine}
			file := filepath.Join(m.state, boltdb.FileName)
			if err := os.Mkdir(m.state, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, f.State, 0o600); err != nil {
				t.Fatal(err)
			}
			t.Logf("Sets: %v", m.takes(allTables))
			m.down(f.State)
			if !sections[at].reads { // otherwise it was not converted
				m.goBack(f.State)
			}
		})
	}
}

// TestRestart: this version takes over what it left itself, stopped or killed, and changes nothing.
func TestRestart(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			b := newUpgradeBench(t, nil)
			m := &manager{b: b, binary: heddle, state: filepath.Join(b.dir, "state"), partitions: true, groups: true, machines: true}
			p := m.start()
			m.use()
			_ = p.stop(sig)
			t.Logf("Sets %v", m.takes(allTables))
		})
	}
}

// goBack goes back to the copy of the older file, by the command that 'heddle store check' prints.
func (m *manager) goBack(old []byte) {
	b := m.b
	b.t.Helper()
	file := filepath.Join(m.state, boltdb.FileName)
	copies, err := boltdb.Copies(file)
	if err != nil || len(copies) != 1 {
		b.t.Fatalf("copies %v, %v", copies, err)
	}
	if kept, err := os.ReadFile(copies[0].Path); err != nil || !bytes.Equal(kept, old) {
		b.t.Fatalf("the copy is not what the older version left: %v", err)
	}
	out := must(b.t, upTime, b.dir, nil, heddle, "store", "check", m.state)
	_, after, ok := strings.Cut(out, "or without it:\n  heddle ")
	if !ok || !strings.Contains(out, copies[0].Path+" is sound: the file as it was on ") {
		b.t.Fatalf("the check says\n%s", out)
	}
	command, _, _ := strings.Cut(after, "\n")
	must(b.t, upTime, b.dir, nil, "sh", "-c", heddle+" "+command)
	want, err := boltdb.Read(copies[0].Path)
	if err != nil {
		b.t.Fatal(err)
	}
	now, err := boltdb.Read(file)
	if err != nil || !reflect.DeepEqual(now, want) {
		b.t.Errorf("after %s the file holds another state: %v", command, err)
	}
}

// down makes a file for the older version from the present one, and compares what the two hold.
func (m *manager) down(old []byte) {
	b := m.b
	b.t.Helper()
	first, err := boltdb.Read(writeState(b.t, old))
	if err != nil {
		b.t.Fatal(err)
	}
	now, err := boltdb.Read(filepath.Join(m.state, boltdb.FileName))
	if err != nil {
		b.t.Fatal(err)
	}
	if !slices.Equal(first.LIDs, now.LIDs) {
		b.t.Errorf("the LIDs were %v and are %v", first.LIDs, now.LIDs)
	}
	text := must(b.t, upTime, b.dir, nil, heddle, "store", "export", "--secrets", m.state)
	backup := filepath.Join(b.dir, "backup")
	if err := os.WriteFile(backup, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	for _, v := range []string{"first-light", "answers", "0.1.0", "hosts", "never-down"} {
		dir := filepath.Join(b.dir, "for-"+v)
		must(b.t, upTime, b.dir, nil, heddle, "store", "import", backup, dir, "--for", v)
		back, err := boltdb.Read(filepath.Join(dir, boltdb.FileName))
		if err != nil {
			b.t.Fatal(err)
		}
		if !slices.Equal(back.LIDs, now.LIDs) || !slices.Equal(back.MKeys, now.MKeys) || !slices.Equal(back.Neighbors, now.Neighbors) {
			b.t.Errorf("the file for %s does not hold the same", v)
		}
	}
}

func writeState(t *testing.T, file []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), boltdb.FileName)
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// section is a section of CHANGELOG.md, with the program that was built from its last commit.
type section struct {
	name   string // of the program, in HEDDLE_OLD
	older  string // the name that 'heddle store import --for' has for it
	groups bool   // hosts can join groups, and ports get P_Keys
	engine string // of a fixture
	reads  bool   // it reads files of this version, until one has something newer
}

var sections = []section{
	{"01-first-light", "first-light", false, "minhop,updn", false},
	{"02-routes", "answers", false, "minhop,updn", false},
	{"03-answers", "answers", true, "", false},
	{"04-0.1.0", "0.1.0", true, "", false},
	{"05-repair-in-place", "0.1.0", true, "", false},
	{"06-trust", "0.1.0", true, "", false},
	{"07-house", "0.1.0", true, "", false},
	{"08-packets", "0.1.0", true, "", false},
	{"09-hosts", "hosts", true, "", false},
	{"10-counters", "hosts", true, "", false},
	{"11-never-down", "never-down", true, "", true},
}

// TestUpgradeFromBuilds does the same with the older programs, both ways, and makes the fixtures
// (tools/upgrade.sh). HEDDLE_OLD is the directory of the programs, named as in sections.
func TestUpgradeFromBuilds(t *testing.T) {
	dir := os.Getenv("HEDDLE_OLD")
	if dir == "" {
		need.Missing(t, "older programs", "set HEDDLE_OLD: see tools/upgrade.sh")
	}
	for _, from := range sections {
		binary := filepath.Join(dir, from.name)
		if _, err := os.Stat(binary); err != nil {
			t.Errorf("%s: %v", from.name, err)
			continue
		}
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
			t.Run(fmt.Sprintf("%s/%v", from.name, sig), func(t *testing.T) {
				b := newUpgradeBench(t, nil)
				old := &manager{b: b, binary: binary, state: filepath.Join(b.dir, "state"), groups: from.groups}
				old.can()
				old.partitions = old.partitions && from.groups // 02-routes takes --partitions and programs nothing
				p := old.start()
				old.use()
				_ = p.stop(sig)
				file := filepath.Join(old.state, boltdb.FileName)
				state, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if sig == syscall.SIGINT {
					f := fixture{Partitions: old.partitions, Machines: old.machines, Engine: from.engine, State: state}
					b.d.Do(func(*sim.Subnet) { f.Sets = slices.Clone(b.sets) })
					if err := os.MkdirAll(fixtures, 0o755); err != nil {
						t.Fatal(err)
					}
					if err := f.write(filepath.Join(fixtures, from.name+".gz")); err != nil {
						t.Fatal(err)
					}
				}
				now := &manager{b: b, binary: heddle, state: old.state, partitions: old.partitions, machines: old.machines, engine: from.engine}
				t.Logf("up: Sets %v", now.takes(allTables))
				format := 3
				if from.reads {
					t.Logf("down with the same file: Sets %v", old.takes([]ib.AttrID{smp.AttrLFT}))
					t.Logf("up again: Sets %v", now.takes(allTables))
					p := now.start()
					now.ctl("token", "create", "night", "--role", "viewer")
					if err := p.stop(syscall.SIGINT); err != nil {
						t.Error(err)
					}
					format = 4
				}
				old.refuses(file, format)
				backup := must(t, upTime, b.dir, nil, heddle, "store", "export", "--secrets", now.state)
				if err := os.WriteFile(filepath.Join(b.dir, "backup"), []byte(backup), 0o600); err != nil {
					t.Fatal(err)
				}
				t.Log(must(t, upTime, b.dir, nil, heddle, "store", "import", filepath.Join(b.dir, "backup"), now.state, "--replace", "--for", from.older))
				// Older versions revoke the P_Keys of machines when they start, and give them back.
				t.Logf("down: Sets %v", old.takes([]ib.AttrID{smp.AttrLFT}))
				if !from.reads {
					old.takesCopy(now)
				}
			})
		}
	}
}

// takesCopy: the newer program converts what the older one left, and the older one goes on with the copy.
func (m *manager) takesCopy(now *manager) {
	b := m.b
	b.t.Helper()
	state, err := os.ReadFile(filepath.Join(m.state, boltdb.FileName))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Logf("up: Sets %v", now.takes([]ib.AttrID{smp.AttrLFT}))
	now.goBack(state)
	b.t.Logf("back to the copy: Sets %v", m.takes([]ib.AttrID{smp.AttrLFT}))
}

// refuses: the older program says what is wrong with the newer file, and leaves it as it is.
func (m *manager) refuses(file string, format int) {
	b := m.b
	b.t.Helper()
	before, err := os.ReadFile(file)
	if err != nil {
		b.t.Fatal(err)
	}
	out, err := m.run(m.args()...)
	if err == nil || !strings.Contains(out, fmt.Sprintf("has format %d, this program writes format", format)) {
		b.t.Errorf("the older program: %v\n%s", err, tail(out))
	}
	if after, _ := os.ReadFile(file); !bytes.Equal(before, after) {
		b.t.Error("the older program changed the file")
	}
	b.t.Logf("refused: %s", strings.TrimSpace(tail(out)))
}
