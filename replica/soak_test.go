package replica

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"heddle/internal/need"
	"heddle/mad"
	"heddle/store"
	"heddle/store/boltdb"
	"heddle/store/journal"
)

// soak is what clients ask of a pair that goes on for a day, on files of the real store: hosts join and
// leave, and services are registered with leases that end. Everything about it is bounded.
type soak struct {
	w     *world
	dir   [2]string
	keys  [soakKeys]soakKey
	asked map[uint64]question // changes without an answer
	dark  mad.Time            // when no process ran last
	ended int                 // leases that ended
	acked int
	busy  int // changes that were refused
}

const (
	soakKeys     = 256 // the first ones are hosts
	soakServices = 64  // the last ones
	soakEvery    = 500 * time.Millisecond
	soakValue    = 64 // bytes of a record: so few that a leak is not hidden by what is kept for the other manager
	soakFault    = 30 * time.Second
)

// question is a change under way.
type question struct {
	key, by, life int
	value         uint64 // that the key has then; 0: none
	lease         time.Duration
	end           int64
	expires       bool
}

// soakKey is a host's membership, or a service.
type soakKey struct {
	value uint64   // that was acknowledged last; 0: there is none
	maybe []uint64 // of later changes that may have been carried out
	is    acked
	since mad.Time // the service was registered
	lease time.Duration
	end   int64 // of the lease, as it is stored
	busy  uint64
}

func soakName(i int) []byte { return fmt.Appendf(nil, "k%03d", i) }

// newSoak returns a world with files in temporary directories.
func newSoak(t testing.TB, seed uint64) *world {
	x := &soak{asked: map[uint64]question{}}
	for i := range x.dir {
		x.dir[i] = inMemory(t)
	}
	w := newWorldOn(t, seed, func(w *world, i int) journal.Store {
		x.w, w.soak = w, x
		return x.open(i)
	})
	t.Cleanup(func() {
		for _, s := range w.site {
			s.disk.Close()
		}
	})
	return w
}

// inMemory is a directory that needs no disk, where there is one: what syncs mean is tested in
// store/boltdb, and 20,000 an hour take longer than all else.
func inMemory(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "heddle-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (x *soak) open(i int) journal.Store {
	db, err := boltdb.Open(filepath.Join(x.dir[i], boltdb.FileName))
	if err != nil {
		x.w.t.Fatal(err)
	}
	return db
}

// restarted opens a site's file anew, as its next process does.
func (x *soak) restarted(s *site) {
	if s.life == 1 {
		return
	}
	if err := s.disk.Close(); err != nil {
		x.w.t.Fatal(err)
	}
	s.disk = x.open(s.i)
}

// act has a client ask for a change, if a manager is there that takes it.
func (x *soak) act() {
	w := x.w
	s := w.site[w.r.IntN(2)]
	if s.core == nil || s.core.role != Active {
		s = s.other()
	}
	i := w.r.IntN(soakKeys)
	k := &x.keys[i]
	if s.core == nil || s.stop || s.core.role != Active || x.waits(k) {
		return
	}
	q := question{key: i}
	if i < soakKeys-soakServices {
		if k.value == 0 || w.r.IntN(2) == 0 {
			q.value = w.nextID + 1
		}
	} else {
		q.value, q.lease = w.nextID+1, time.Duration(20+w.r.IntN(280))*time.Second
		q.end = s.times.At(s.clock()) + int64(q.lease)
	}
	x.ask(s, q)
}

// waits reports whether a change of a key is under way at a process that runs.
func (x *soak) waits(k *soakKey) bool {
	q, ok := x.asked[k.busy]
	if !ok {
		return false
	}
	if s := x.w.site[q.by]; s.core != nil && s.life == q.life {
		return true
	}
	delete(x.asked, k.busy)
	return false
}

func (x *soak) ask(s *site, q question) {
	w := x.w
	w.nextID++
	id := w.nextID
	q.by, q.life = s.i, s.life
	k := &x.keys[q.key]
	k.busy, x.asked[id] = id, q
	if !slices.Contains(k.maybe, q.value) {
		k.maybe = append(k.maybe, q.value)
	}
	op := store.Op{Kind: store.DeleteRecord, Record: store.Record{Table: store.TableServices, Key: soakName(q.key)}}
	if q.value != 0 {
		op.Kind = store.PutRecord
		op.Record.Value = make([]byte, soakValue)
		binary.BigEndian.PutUint64(op.Record.Value, q.value)
		binary.BigEndian.PutUint64(op.Record.Value[8:], uint64(q.end))
	}
	s.step(Change{ID: id, Wall: s.times.At(s.clock()), Ops: []store.Op{op}})
}

// expire ends the leases that an active manager sees at their end.
func (x *soak) expire() {
	for _, s := range x.w.site {
		for i := soakKeys - soakServices; i < soakKeys; i++ {
			k := &x.keys[i]
			if s.core == nil || s.stop || s.core.role != Active || !s.core.active.granted {
				break
			}
			if k.value != 0 && s.times.At(s.clock()) >= k.end && !x.waits(k) {
				x.ask(s, question{key: i, expires: true})
			}
		}
	}
}

// done takes the answer to a change.
func (x *soak) done(s *site, d Done, alone bool) {
	w := x.w
	q, ok := x.asked[d.ID]
	if !ok {
		return
	}
	delete(x.asked, d.ID)
	k := &x.keys[q.key]
	switch d.Err {
	case nil:
	case ErrStandby, ErrBusy:
		x.busy++
		k.maybe = slices.DeleteFunc(k.maybe, func(v uint64) bool { return v == q.value && v != 0 })
		return
	default:
		return
	}
	x.acked++
	w.last = w.now
	s.proved()
	if q.expires {
		x.ended++
		if least := k.since.Add(k.lease*9/10 - time.Second); w.now < least && !x.excused(k.since) {
			w.fail("the lease of %s, registered at %v for %v, ends at %v", soakName(q.key), k.since, k.lease, w.now)
		}
	}
	k.value, k.maybe = q.value, nil
	k.is = acked{w.now, s.i, alone, alone && (w.maybeFork() || s.other().isAlone() || w.unheard(s))}
	k.since, k.lease, k.end = w.now, q.lease, q.end
}

// excused reports whether the time of leases may have begun anew since: no process ran, or one took over
// that may lack entries, or there were two histories.
func (x *soak) excused(since mad.Time) bool {
	w := x.w
	return x.dark >= since || w.begun > 0 && len(w.loud) > 0 && w.loud[len(w.loud)-1] >= since || w.forked || w.forkEnd >= since
}

// complete fails if a site lacks what was acknowledged, or has what nobody asked for.
func (x *soak) complete(s *site) {
	w := x.w
	have := map[string]uint64{}
	for _, r := range must(s.disk.Load()).Records {
		have[string(r.Key)] = binary.BigEndian.Uint64(r.Value)
	}
	for i := range x.keys {
		k := &x.keys[i]
		v := have[string(soakName(i))]
		if v == k.value || slices.Contains(k.maybe, v) {
			continue
		}
		if k.is.alone && (k.is.fork || len(w.loud) > 0 && w.loud[len(w.loud)-1] >= k.is.at) {
			continue
		}
		w.fail("%s is %d at %d; %d was acknowledged by %d at %v (alone: %v), and %v may have been carried out", soakName(i), v, s.i, k.value, k.is.by, k.is.at, k.is.alone, k.maybe)
	}
}

// settle takes what the active manager has for what is known, when nothing is under way.
func (x *soak) settle(s *site) {
	have := map[string][]byte{}
	for _, r := range must(s.disk.Load()).Records {
		have[string(r.Key)] = r.Value
	}
	clear(x.asked)
	for i := range x.keys {
		k := &x.keys[i]
		b := have[string(soakName(i))]
		k.maybe, k.busy, k.is = nil, 0, acked{at: x.w.now, by: s.i}
		if k.value, k.end = 0, 0; b != nil {
			k.value, k.end = binary.BigEndian.Uint64(b), int64(binary.BigEndian.Uint64(b[8:]))
		}
	}
}

// bounded fails if what a manager keeps has no bound.
func (x *soak) bounded() {
	for _, s := range x.w.site {
		if s.core == nil {
			continue
		}
		a := &s.core.active
		if len(a.recent) > recentEntries || a.recentSize > recentBytes || len(a.ahead) > sendAhead || a.flying > sendBytes || a.size > s.core.cfg.Waiting || len(s.core.disk) > 1024 || len(s.sync) > 1024 {
			x.w.fail("%d keeps %d entries, %d are ahead, %d wait, %d are at the disk", s.i, len(a.recent), len(a.ahead), len(a.waiting), len(s.core.disk))
		}
	}
	if w := x.w; w.due.Len() > 4096 {
		w.fail("%d events wait", w.due.Len())
	}
}

// trim drops what the world keeps of the past.
func (x *soak) trim() {
	w := x.w
	w.log = slices.Clone(w.log[max(0, len(w.log)-500):])
	w.turns, w.notices = nil, [2][]Notice{}
	if n := len(w.loud); n > 1 {
		w.loud = slices.Clone(w.loud[n-1:])
	}
}

// calm ends all faults, waits until both are a pair, and judges.
func (x *soak) calm() {
	w := x.w
	w.heal()
	w.fork()
	since := w.now
	w.run(w.now.Add(20 * time.Second))
	act := w.active()
	if act == nil || !act.core.active.paired || !act.other().core.standby.spare(stepped(act.other())) || w.healthy > since.Add(soon) {
		w.show()
		w.fail("they are no pair %v after the last fault, which ended at %v: %v", w.now.Sub(since), since, w.healthy)
	}
	if w.now.Sub(w.last) > 5*time.Second {
		w.fail("nothing was acknowledged since %v", w.last)
	}
	x.complete(act)
	x.trim()
}

// use is what is used at a moment.
type use struct {
	heap  uint64
	files [2]int64
}

// use measures, with all that is kept for the other manager full.
func (x *soak) use() (u use) {
	w := x.w
	x.calm()
	x.hurry(recentEntries + 100)
	x.calm()
	w.log = nil // the test's own: it fills in the course of hours
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.heap = m.HeapAlloc
	for i, dir := range x.dir {
		list, err := os.ReadDir(dir)
		if err != nil || len(list) != 1 {
			w.fail("%d has %v, %v", i, list, err)
		}
		u.files[i] = must(list[0].Info()).Size()
	}
	return u
}

// hurry has clients ask n times in short order.
func (x *soak) hurry(n int) {
	for range n {
		x.act()
		x.w.run(x.w.now.Add(5 * time.Millisecond))
	}
}

// TestSoak: a day in which something fails each 30 s and is repaired soon after. No acknowledged change
// is lost but where the rules say so, no lease ends early, both are a pair after each repair, and neither
// memory nor files grow.
func TestSoak(t *testing.T) {
	hours, first := time.Hour, 20*time.Minute
	if os.Getenv("HEDDLE_LONG") != "" {
		hours, first = 24*time.Hour, 2*time.Hour
	}
	for _, seed := range need.Seeds(1, 1) {
		w := newSoak(t, seed)
		x := w.soak
		var load func()
		load = func() {
			x.act()
			w.check()
			w.at(soakEvery, load)
		}
		w.at(0, load)
		var tick func()
		tick = func() {
			if w.site[0].core == nil && w.site[1].core == nil {
				x.dark = w.now
			}
			x.expire()
			x.bounded()
			w.at(time.Second, tick)
		}
		w.at(time.Second, tick)
		begin := w.now
		w.run(w.now.Add(20 * time.Second))
		x.hurry(12_000) // more than a journal keeps: files and their lists of free pages grow until then
		faults := 0
		var early use
		measured := false
		for w.now < begin.Add(hours) {
			next := w.now.Add(soakFault)
			// In the second half one process is never killed, so that it lives long.
			w.spared = nil
			if w.now > begin.Add(hours/2) {
				w.spared = w.site[1]
			}
			kind := w.r.IntN(22)
			for kind == 13 || kind == 21 { // a repair; a manager that is not of the pair, whose store grows
				kind = w.r.IntN(22)
			}
			w.faultOf(kind)
			faults++
			w.run(w.now.Add(time.Duration(1+w.r.IntN(9)) * time.Second))
			x.calm()
			w.run(max(next, w.now))
			if !measured && w.now > begin.Add(first) {
				measured, early = true, x.use()
			}
		}
		w.run(w.now.Add(6 * time.Minute)) // every lease has ended, or was renewed
		late := x.use()
		act := w.active()
		x.settle(act)
		w.same()
		for i := soakKeys - soakServices; i < soakKeys; i++ {
			if k := &x.keys[i]; k.value != 0 && act.times.At(act.clock()) > k.end+int64(3*time.Second) {
				w.fail("the lease of %s has not ended", soakName(i))
			}
		}
		t.Logf("seed %d: %v, %d faults, %d changes, %d refused, %d leases ended, %d copies with a fork file; heap %d KiB after %v, %d KiB at the end; files %d and %d KiB, then %d and %d KiB",
			seed, hours, faults, x.acked, x.busy, x.ended, w.forks, early.heap>>10, first, late.heap>>10, early.files[0]>>10, early.files[1]>>10, late.files[0]>>10, late.files[1]>>10)
		if late.heap > early.heap+early.heap/20 {
			t.Errorf("the heap has grown from %d to %d bytes", early.heap, late.heap)
		}
		for i := range late.files {
			if hours > time.Hour && late.files[i] > early.files[i]+early.files[i]/4 {
				t.Errorf("the file of %d has grown from %d to %d bytes", i, early.files[i], late.files[i])
			}
		}
		if x.ended == 0 || x.acked < faults {
			t.Errorf("%d leases ended, %d changes count", x.ended, x.acked)
		}
	}
}
