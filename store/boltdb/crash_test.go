package boltdb_test

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"heddle/ib"
	"heddle/internal/faultdisk"
	"heddle/internal/need"
	"heddle/internal/storetest"
	"heddle/store"
	"heddle/store/boltdb"
	"heddle/store/journal"
)

func TestMain(m *testing.M) {
	faultdisk.Main(m, map[string]func([]string) int{"store": serveStore})
}

// command is one call of a store in another process.
type command struct {
	Kind    string // open, close, read, older (makes a file of format 2), or one that changes the store
	Ops     []store.Op
	Entries []journal.Entry
	State   store.State
	Mark    journal.Mark
	Note    []byte
}

// result is its answer.
type result struct {
	Err string
	All string // of read: everything that the store holds
}

// serveStore carries out the commands on its standard input with the store in a directory.
func serveStore(args []string) int {
	in, out := gob.NewDecoder(os.Stdin), gob.NewEncoder(os.Stdout)
	var s *boltdb.DB
	for {
		var c command
		if err := in.Decode(&c); err != nil {
			return 0
		}
		var r result
		var err error
		switch c.Kind {
		case "open":
			s, err = boltdb.Open(filepath.Join(args[0], boltdb.FileName))
		case "open without copy":
			s, err = boltdb.OpenWith(filepath.Join(args[0], boltdb.FileName), boltdb.Options{WithoutCopy: true})
		case "older":
			if err = boltdb.WriteOlder(filepath.Join(args[0], boltdb.FileName), &c.State, 2); err == nil {
				var dir *os.File
				if dir, err = os.Open(args[0]); err == nil {
					err = errors.Join(dir.Sync(), dir.Close())
				}
			}
		case "close":
			err = s.Close()
		case "read":
			r.All, err = everything(s)
		default:
			err = c.on(s)
		}
		if err != nil {
			r.Err = err.Error()
		}
		if err := out.Encode(&r); err != nil {
			return 0
		}
	}
}

// on changes a store.
func (c *command) on(s journal.Store) error {
	switch c.Kind {
	case "apply":
		return s.Apply(c.Ops)
	case "append":
		if g, ok := s.(journal.Grouper); ok && len(c.Entries) > 1 {
			return g.AppendAll(c.Entries)
		}
		for i := range c.Entries {
			if err := s.Append(&c.Entries[i]); err != nil {
				return err
			}
		}
		return nil
	case "replace":
		return s.Replace(&c.State, c.Mark)
	case "note":
		return s.SetNote(c.Note)
	}
	return errors.New("unknown command " + c.Kind)
}

// contents is what a store holds as text.
func contents(st *store.State, at journal.Mark) string {
	var h strings.Builder
	h.WriteString(fmt.Sprintf("%v\n", at))
	for _, o := range st.Ops() {
		h.WriteString(operation(o))
	}
	return h.String()
}

func operation(o store.Op) string {
	return fmt.Sprintf("%d %v %d/%d %v %d %v %d %x %x\n", o.Kind, o.GUID, o.LID, o.LMC, o.MKey, o.Port, o.Peer, o.Record.Table, o.Record.Key, o.Record.Value)
}

// everything is what a store holds, with its note and journal.
func everything(s journal.Store) (string, error) {
	st, at, err := s.Contents()
	if err != nil {
		return "", err
	}
	note, err := s.Note()
	if err != nil {
		return "", err
	}
	all := contents(st, at) + fmt.Sprintf("note %x\n", note)
	list, err := s.Entries(at.Number+1, 1)
	for n := at.Number; n > 0 && err == nil && len(list) == 0; n-- {
		var e []journal.Entry
		if e, err = s.Entries(n, 1); errors.Is(err, journal.ErrTrimmed) {
			return all, nil
		} else if err == nil {
			all += fmt.Sprintf("entry %v %v\n", e[0].Mark, e[0].Begin != nil)
			for _, o := range e[0].Ops {
				all += operation(o)
			}
		}
	}
	return all, err
}

// campaign drives one store through crashes and faults.
type campaign struct {
	t    *testing.T
	seed uint64
	r    *rand.Rand
	disk *faultdisk.Disk
	dir  string // for images
	done []command

	// doubt is a refused change that the disk did not let the store undo.
	doubt []command

	p   *faultdisk.Process
	enc *gob.Encoder
	dec *gob.Decoder

	mu    sync.Mutex      // of what the hook uses
	may   map[string]bool // contents that a crash may leave
	hookR *rand.Rand
	left  int // requests until the crash; < 0: none
	dead  bool

	// often: every request has several images, and not only some have one.
	often bool

	crashes, images, refused int
}

// model is a store in memory that holds what was acknowledged, and more changes.
func (c *campaign) model(more ...command) *journal.Memory {
	m := journal.NewMemory(1 << 20)
	for _, x := range slices.Concat(c.done, more) {
		if err := x.on(m); err != nil {
			c.t.Fatalf("seed %d: the model refuses %s: %v", c.seed, x.Kind, err)
		}
	}
	return m
}

func text(t *testing.T, s journal.Store) (short, all string) {
	t.Helper()
	st, at, err := s.Contents()
	if err != nil {
		t.Fatal(err)
	}
	if all, err = everything(s); err != nil {
		t.Fatal(err)
	}
	return contents(st, at), all
}

// run starts a process that has the disk.
func (c *campaign) run() {
	c.p = faultdisk.Run(c.t, c.disk, "store", "DIR")
	c.enc, c.dec = gob.NewEncoder(c.p.In), gob.NewDecoder(c.p.Out)
	c.mu.Lock()
	c.dead = false
	c.mu.Unlock()
}

// hook is called by the disk before each request that changes something.
func (c *campaign) hook() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.often {
		for range 6 {
			c.image(faultdisk.Tear4K)
		}
	} else if c.hookR.IntN(3) == 0 {
		c.image(faultdisk.Tear(c.hookR.IntN(int(faultdisk.Tears))))
	}
	if c.left == 0 {
		c.dead = true
		c.p.Stop()
	}
	c.left--
}

// image looks at what a crash would leave at this moment.
func (c *campaign) image(tear faultdisk.Tear) {
	c.images++
	b := c.disk.Image(boltdb.FileName, tear)
	path := filepath.Join(c.dir, boltdb.FileName)
	if b == nil {
		if none := contents(&store.State{}, journal.Mark{}); !c.may[none] {
			c.t.Errorf("seed %d: a crash (tear %d) leaves no file", c.seed, tear)
		}
		return
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		c.t.Error(err)
		return
	}
	st, at, err := boltdb.ReadContents(path)
	switch {
	case err != nil:
		c.t.Errorf("seed %d: a crash (tear %d) leaves a file that cannot be read: %v", c.seed, tear, err)
	case !c.may[contents(st, at)]:
		c.t.Errorf("seed %d: a crash (tear %d) leaves a state of %d entries at %v that never was acknowledged", c.seed, tear, len(st.Ops()), at)
	default:
		if err := boltdb.Check(path); err != nil {
			c.t.Errorf("seed %d: a crash (tear %d): %v", c.seed, tear, err)
		}
	}
}

// do sends a command. ok is false if the power ended before the answer.
func (c *campaign) do(x command) (r result, ok bool) {
	if err := c.enc.Encode(&x); err == nil && c.dec.Decode(&r) == nil {
		return r, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dead {
		err := c.p.Wait()
		c.t.Fatalf("seed %d: the process ended in %s: %v", c.seed, x.Kind, err)
	}
	return r, false
}

// allow sets what a crash may leave: what was acknowledged, and what is under way.
func (c *campaign) allow(keep bool, more ...command) {
	short, _ := text(c.t, c.model())
	c.mu.Lock()
	defer c.mu.Unlock()
	if !keep {
		c.may = map[string]bool{}
	}
	c.may[short] = true
	if len(more) > 0 {
		short, _ := text(c.t, c.model(more...))
		c.may[short] = true
	}
}

// crash ends the power, and opens what is left. pending was under way.
func (c *campaign) crash(pending ...command) {
	c.crashes++
	c.p.Kill()
	for range 3 {
		tear := faultdisk.Tear(c.r.IntN(int(faultdisk.Tears)))
		c.mu.Lock()
		c.left = -1
		if c.r.IntN(3) == 0 {
			c.left = c.r.IntN(12) // also while it opens the file
		}
		c.mu.Unlock()
		c.disk.Crash(tear)
		c.run()
		r, ok := c.do(command{Kind: "open"})
		if !ok {
			c.p.Kill()
			continue
		}
		if r.Err != "" {
			c.t.Fatalf("seed %d: after a crash (tear %d): %s", c.seed, tear, r.Err)
		}
		c.mu.Lock()
		c.left = -1
		c.mu.Unlock()
		r, ok = c.do(command{Kind: "read"})
		if !ok {
			c.p.Kill()
			continue
		}
		_, acked := text(c.t, c.model())
		_, next := text(c.t, c.model(pending...))
		_, doubt := text(c.t, c.model(c.doubt...))
		switch {
		case r.Err != "":
			c.t.Fatalf("seed %d: after a crash (tear %d): %s", c.seed, tear, r.Err)
		case r.All == acked:
		case r.All == next:
			c.done = append(c.done, pending...)
		case r.All == doubt:
			c.done = append(c.done, c.doubt...)
		default:
			c.t.Fatalf("seed %d: after a crash (tear %d) the store holds\n%.2000s\nacknowledged was\n%.2000s", c.seed, tear, r.All, acked)
		}
		c.doubt = nil
		c.allow(false)
		return
	}
	c.disk.Crash(faultdisk.TearNone)
	c.run()
	if r, _ := c.do(command{Kind: "open"}); r.Err != "" {
		c.t.Fatalf("seed %d: %s", c.seed, r.Err)
	}
	c.p.Kill()
	c.disk.Crash(faultdisk.TearAll)
	c.crash(pending...)
}

// change is a random change that a store in its present state accepts.
func (c *campaign) change() command {
	at, err := c.model().Last()
	if err != nil {
		c.t.Fatal(err)
	}
	ops := make([]store.Op, 1+c.r.IntN(6))
	for i := range ops {
		ops[i] = storetest.Op(c.r)
		if ops[i].Kind == store.PutRecord && c.r.IntN(6) == 0 {
			ops[i].Record.Value = bytes.Repeat([]byte{byte(c.r.Uint32())}, c.r.IntN(40_000)) // several pages
		}
	}
	switch n := c.r.IntN(20); {
	case n < 10:
		return command{Kind: "apply", Ops: ops}
	case n < 16:
		e := journal.Entry{Mark: journal.Mark{Term: at.Term, Number: at.Number + 1}, Wall: 1, Ops: ops}
		if c.r.IntN(3) == 0 {
			e.Term, e.Begin = at.Term.Next(ib.GUID(1+c.r.IntN(2))), &journal.Begin{Had: at, Reason: "test"}
		}
		x := command{Kind: "append", Entries: []journal.Entry{e}}
		for range c.r.IntN(3) { // with one sync
			e.Number++
			e.Begin, e.Ops = nil, []store.Op{storetest.Op(c.r)}
			x.Entries = append(x.Entries, e)
		}
		return x
	case n < 18:
		return command{Kind: "note", Note: fmt.Append(nil, c.r.IntN(1000))}
	default:
		m := store.NewMemory()
		for range c.r.IntN(40) {
			if err := m.Apply([]store.Op{storetest.Op(c.r)}); err != nil {
				c.t.Fatal(err)
			}
		}
		st, err := m.Load()
		if err != nil {
			c.t.Fatal(err)
		}
		return command{Kind: "replace", State: *st, Mark: journal.Mark{Term: at.Term.Next(3), Number: uint64(c.r.IntN(100))}}
	}
}

func newCampaign(t *testing.T, seed uint64) *campaign {
	c := &campaign{
		t: t, seed: seed, dir: t.TempDir(), disk: faultdisk.New(seed), left: -1,
		r: rand.New(rand.NewPCG(seed, 1)), hookR: rand.New(rand.NewPCG(seed, 2)),
	}
	c.allow(false)
	c.disk.Hook(c.hook)
	c.run()
	return c
}

func (c *campaign) setLeft(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = n
}

// TestPowerLoss: the end of the power at any moment leaves a file that opens and holds what was
// acknowledged, and what was under way or not.
func TestPowerLoss(t *testing.T) {
	var crashes, images int
	for _, seed := range need.Seeds(3, 60) {
		c := newCampaign(t, seed)
		c.setLeft(c.r.IntN(20)) // the file is made
		if r, ok := c.do(command{Kind: "open"}); !ok {
			c.crash()
		} else if r.Err != "" {
			t.Fatal(r.Err)
		}
		for range 40 {
			c.setLeft(-1)
			if c.r.IntN(4) == 0 {
				c.setLeft(c.r.IntN(12))
			}
			x := c.change()
			c.allow(false, x)
			switch r, ok := c.do(x); {
			case !ok:
				c.crash(x)
			case r.Err != "":
				t.Fatalf("seed %d: %s: %s", seed, x.Kind, r.Err)
			default:
				c.done = append(c.done, x)
				c.allow(false)
			}
			if t.Failed() {
				return
			}
		}
		c.p.Kill()
		crashes, images = crashes+c.crashes, images+c.images
	}
	t.Logf("%d crashes, %d images of other crashes", crashes, images)
}

// TestEveryRequest: a change is killed at each of its requests, or that request fails, and then
// another change is made, by the same process or the next one. At each moment of that the power
// may end.
func TestEveryRequest(t *testing.T) {
	put := func(n uint64, size int) command {
		ops := []store.Op{{Kind: store.PutLID, GUID: ib.GUID(n), LID: ib.LID(n)}, {Kind: store.PutRecord, Record: store.Record{
			Table: store.TableGroups, Key: []byte("k"), Value: bytes.Repeat([]byte{byte(n)}, size),
		}}}
		return command{Kind: "apply", Ops: ops}
	}
	for _, how := range []string{"kill", "fail", "fail and kill"} {
		t.Run(how, func(t *testing.T) {
			for k, ended := 0, false; !ended; k++ {
				c := newCampaign(t, uint64(k))
				change := func(x command, fails bool) (ok bool) {
					c.allow(fails, x)
					r, ok := c.do(x)
					if ok && r.Err == "" {
						c.done = append(c.done, x)
						c.allow(false)
					}
					return ok && r.Err == ""
				}
				if r, ok := c.do(command{Kind: "open"}); !ok || r.Err != "" {
					t.Fatal(r.Err)
				}
				for n := range uint64(4) {
					if !change(put(n+1, 3000), false) {
						t.Fatal("it is refused")
					}
				}
				x := put(5, 9000)
				if how == "kill" {
					c.setLeft(k)
				} else {
					n := 2 // it and the next one
					if how == "fail and kill" {
						n = -1 // so that it cannot be undone
					}
					c.disk.Fail(faultdisk.Fault{Op: faultdisk.OpAny, Skip: k, Count: n, Errno: syscall.EIO})
				}
				ended = change(x, false)
				c.setLeft(-1)
				if how == "fail and kill" {
					c.mu.Lock()
					c.dead = true
					c.mu.Unlock()
				}
				c.disk.Heal()
				c.allow(true, x)
				if how != "fail" {
					c.p.Kill()
					c.disk.Crash(faultdisk.TearNone)
					c.run()
					if r, ok := c.do(command{Kind: "open"}); !ok || r.Err != "" {
						t.Fatal(r.Err)
					}
					r, _ := c.do(command{Kind: "read"})
					if _, next := text(t, c.model(x)); r.All == next && !ended {
						c.done = append(c.done, x)
					}
					c.allow(true)
				}
				c.mu.Lock()
				c.often = true
				c.mu.Unlock()
				for n := range uint64(3) {
					y := put(10+n, 12000)
					c.allow(n == 0, y)
					if !change(y, n == 0) {
						t.Fatalf("request %d: the next change is refused", k)
					}
				}
				c.p.Kill()
				if t.Failed() {
					t.Fatalf("request %d", k)
				}
			}
		})
	}
}

// TestFaultyDisk: a write that fails changes nothing, and the store goes on when the disk is
// well again. What fails, and a crash in between, is random.
func TestFaultyDisk(t *testing.T) {
	var crashes, images, refused int
	for _, seed := range need.Seeds(3, 60) {
		c := newCampaign(t, seed)
		if r, ok := c.do(command{Kind: "open"}); !ok || r.Err != "" {
			t.Fatal(r.Err)
		}
		for range 40 {
			x := c.change()
			c.allow(len(c.doubt) > 0, x)
			switch c.r.IntN(4) {
			case 0:
				c.disk.Fail(faultdisk.Fault{
					Op: []faultdisk.Op{faultdisk.OpWrite, faultdisk.OpSync, faultdisk.OpSize}[c.r.IntN(3)], Skip: c.r.IntN(8),
					Count: []int{1, 2, -1}[c.r.IntN(3)], Errno: []syscall.Errno{syscall.EIO, syscall.ENOSPC}[c.r.IntN(2)],
				})
			case 1:
				c.disk.Space(c.disk.Used() + c.r.IntN(5)*4096)
			}
			if c.r.IntN(10) == 0 {
				c.setLeft(c.r.IntN(12))
			}
			r, ok := c.do(x)
			switch {
			case !ok:
			case r.Err == "":
				c.done, c.doubt = append(c.done, x), nil
			default:
				c.refused++
				if strings.Contains(r.Err, "until this is undone") {
					c.doubt = []command{x}
				}
				if !strings.Contains(r.Err, "input/output error") && !strings.Contains(r.Err, "no space left") {
					t.Errorf("seed %d: %s", seed, r.Err)
				}
				// Until the disk is well, reading may fail, but shows no other state.
				if r, ok = c.do(command{Kind: "read"}); ok && r.Err == "" {
					c.doubt = nil
					if _, acked := text(t, c.model()); r.All != acked {
						t.Fatalf("seed %d: after a failed %s the store holds\n%.2000s\nacknowledged was\n%.2000s", seed, x.Kind, r.All, acked)
					}
				}
			}
			if c.r.IntN(3) == 0 {
				c.disk.Heal()
				c.disk.Space(-1)
				if ok {
					if r, ok = c.do(command{Kind: "read"}); ok {
						if _, acked := text(t, c.model()); r.Err != "" || r.All != acked {
							t.Fatalf("seed %d: the disk is well, and the store holds\n%.2000s\n%s\nacknowledged was\n%.2000s", seed, r.All, r.Err, acked)
						}
					}
					y := c.change()
					c.allow(true, y)
					if ok {
						if r, ok = c.do(y); ok && r.Err != "" {
							t.Fatalf("seed %d: the disk is well: %s", seed, r.Err)
						} else if ok {
							c.done, c.doubt = append(c.done, y), nil
							c.allow(false)
						} else {
							x = y
						}
					}
				}
			}
			if !ok {
				c.disk.Space(-1)
				c.crash(x)
			}
			c.setLeft(-1)
			if t.Failed() {
				return
			}
		}
		c.p.Kill()
		crashes, images, refused = crashes+c.crashes, images+c.images, refused+c.refused
	}
	t.Logf("%d refused changes, %d crashes, %d images of other crashes", refused, crashes, images)
}
