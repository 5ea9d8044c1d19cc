// Package faultdisk is a file system for tests whose disk fails as disks do: it loses what was
// not synced, in pieces and in any order, it runs full, and its writes and syncs fail.
//
// A Disk holds the files. Each has two contents: what a program reads, and what survives the end
// of the power. A write changes the first alone; fsync makes the second equal to it. Crash ends the
// power: of the writes since the last sync some survive, sector by sector, by the chosen Tear.
// Names are the same: they are durable when their directory is synced, and survive in the order
// in which they were made.
//
// Run gives a Disk to a program, through FUSE: mmap, flock, link and rename work as on any file
// system. Each program has a mount of its own, which ends with it, so Crash is: kill, lose, run
// again. The program is never the process of the Disk, because a page fault of the runtime would
// wait for itself.
package faultdisk

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// Sector is the size in bytes that a disk writes as a whole.
const Sector = 512

// page is the unit in which space is allocated, and the size of a torn piece of Tear4K.
const page = 4096

// Tear says what a crash leaves of the writes that were not synced.
type Tear uint8

const (
	// TearAll loses all of them.
	TearAll Tear = iota
	// TearNone loses none: a process was killed, and the power stayed. A later crash may lose them.
	TearNone
	// TearOrder keeps them up to a moment, as a disk without a cache does.
	TearOrder
	// Tear4K keeps any of them, in pieces of 4 KiB.
	Tear4K
	// Tear512 keeps any of them, in pieces of a sector.
	Tear512
	// Tears is the number of kinds.
	Tears
)

// Op is a kind of request that can fail.
type Op uint8

const (
	// OpWrite writes bytes.
	OpWrite Op = 1 + iota
	// OpSync syncs a file.
	OpSync
	// OpSyncDir syncs a directory.
	OpSyncDir
	// OpSize changes the size of a file.
	OpSize
	// OpName makes, moves or removes a name.
	OpName
	// OpAny is any of them.
	OpAny
)

// Fault makes requests fail.
type Fault struct {
	Op    Op
	Skip  int           // requests that succeed before
	Count int           // requests that fail; < 0: all from then on
	Errno syscall.Errno // with which they fail
}

// version is one content of a sector, or a size, since the last sync.
type version struct {
	seq  int
	data []byte // of a sector; nil: zeros
	size int
}

// file is an inode.
type file struct {
	id    uint64
	dir   bool
	mode  uint32
	data  []byte         // what programs read
	pages map[int]bool   // that take space
	kept  map[int][]byte // durable sectors that are not zero
	size  int            // durable
	// Since the last sync, in order. A sector that a failed sync had is lost: a later sync does not
	// write it, as Linux marks its pages clean. The size is not: it is in the file system's journal.
	sectors map[int][]version
	sizes   []version
	lost    map[int]bool
	// Of a directory.
	names map[string]*file
	safe  map[string]*file // durable
	moved []naming         // since the last sync
	open  int
}

// naming is a change of a name: to a file, or removed.
type naming struct {
	name string
	to   *file
	// from is the name that a rename removed in the same step.
	from string
}

func (n naming) on(m map[string]*file) {
	if n.from != "" {
		delete(m, n.from)
	}
	if n.to == nil {
		delete(m, n.name)
	} else {
		m[n.name] = n.to
	}
}

// Disk is a file system in memory. Its methods may be called concurrently.
type Disk struct {
	mu     sync.Mutex
	rand   *rand.Rand
	files  map[uint64]*file
	nextID uint64
	seq    int
	space  int // pages that may be allocated; < 0: any number
	used   int
	faults []Fault
	hook   func()
}

// New returns an empty disk. What it loses depends on seed and the requests alone.
func New(seed uint64) *Disk {
	d := &Disk{rand: rand.New(rand.NewPCG(seed, 0xD15C)), files: map[uint64]*file{}, space: -1}
	d.add(true, syscall.S_IFDIR|0o700)
	return d
}

func (d *Disk) add(dir bool, mode uint32) *file {
	d.nextID++
	f := &file{id: d.nextID, dir: dir, mode: mode, pages: map[int]bool{}, kept: map[int][]byte{}, sectors: map[int][]version{}, lost: map[int]bool{}}
	if dir {
		f.names, f.safe = map[string]*file{}, map[string]*file{}
	}
	d.files[f.id] = f
	return f
}

// Space lets files take n bytes in all, in pages of 4 KiB; n < 0: any number.
func (d *Disk) Space(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.space = n
	if n > 0 {
		d.space = n / page
	}
}

// statfs is the reply to statfs: how much room there is.
func (d *Disk) statfs() []byte {
	const total = 1 << 30 // pages
	free := uint64(total)
	if d.space >= 0 {
		free = uint64(max(0, d.space-d.used))
	}
	b := make([]byte, 0, 80)
	for _, x := range []uint64{total, free, free, total, total} { // of blocks, and of inodes
		b = le.AppendUint64(b, x)
	}
	for _, x := range []uint32{page, 255, page} { // of a block, longest name, of a fragment
		b = le.AppendUint32(b, x)
	}
	return b[:80]
}

// Used returns how many bytes the files take.
func (d *Disk) Used() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used * page
}

// Fail makes requests fail, in addition to earlier faults. Heal ends all of them.
func (d *Disk) Fail(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, f)
}

// Heal ends all faults. What failed syncs have lost stays lost.
func (d *Disk) Heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = nil
}

// Hook has f called before each request that changes or syncs a file. f may call Image.
func (d *Disk) Hook(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hook = f
}

// fails says whether a request of this kind fails now.
func (d *Disk) fails(op Op) syscall.Errno {
	if d.hook != nil {
		hook := d.hook
		d.mu.Unlock()
		hook()
		d.mu.Lock()
	}
	var e syscall.Errno
	for i := range d.faults {
		f := &d.faults[i]
		switch {
		case f.Op != op && f.Op != OpAny || f.Count == 0:
		case f.Skip > 0:
			f.Skip--
		default:
			if f.Count > 0 {
				f.Count--
			}
			e = f.Errno
		}
	}
	return e
}

// write is pwrite. It returns how much was written before the error.
func (d *Disk) write(f *file, off int, b []byte) (int, syscall.Errno) {
	if e := d.fails(OpWrite); e != 0 {
		// Nothing has arrived, or some of it.
		n := d.rand.IntN(2) * d.rand.IntN(len(b)/Sector+1) * Sector
		d.put(f, off, b[:n])
		return 0, e
	}
	n := d.put(f, off, b)
	if n == 0 && len(b) > 0 {
		return 0, syscall.ENOSPC
	}
	return n, 0
}

// put writes as much as there is space for.
func (d *Disk) put(f *file, off int, b []byte) int {
	for p := off / page; p*page < off+len(b); p++ {
		if f.pages[p] {
			continue
		}
		if d.space >= 0 && d.used >= d.space {
			b = b[:max(0, p*page-off)]
			break
		}
		f.pages[p] = true
		d.used++
	}
	if len(b) == 0 {
		return 0
	}
	d.seq++
	if end := off + len(b); end > len(f.data) {
		f.data = append(f.data, make([]byte, end-len(f.data))...)
		f.sizes = append(f.sizes, version{seq: d.seq, size: end})
	}
	copy(f.data[off:], b)
	for s := off / Sector; s*Sector < off+len(b); s++ {
		f.changed(d.seq, s)
	}
	return len(b)
}

func (f *file) changed(seq, s int) {
	c := make([]byte, Sector)
	if s*Sector < len(f.data) {
		copy(c, f.data[s*Sector:])
	}
	f.sectors[s] = append(f.sectors[s], version{seq: seq, data: c})
	delete(f.lost, s)
}

// truncate is ftruncate.
func (d *Disk) truncate(f *file, size int) syscall.Errno {
	if e := d.fails(OpSize); e != 0 {
		return e
	}
	d.seq++
	old := len(f.data)
	if size > old {
		f.data = append(f.data, make([]byte, size-old)...)
	} else {
		clear(f.data[size:])
		f.data = f.data[:size]
		for s := size / Sector; s*Sector < old; s++ {
			f.changed(d.seq, s)
		}
		for p := range f.pages {
			if p*page >= size {
				delete(f.pages, p)
				d.used--
			}
		}
	}
	f.sizes = append(f.sizes, version{seq: d.seq, size: size})
	return 0
}

// sync is fsync of a file.
func (d *Disk) sync(f *file) syscall.Errno {
	if e := d.fails(OpSync); e != 0 {
		for s := range f.sectors {
			f.lost[s] = true
		}
		return e
	}
	for s, list := range f.sectors {
		if !f.lost[s] {
			f.kept[s] = list[len(list)-1].data
			delete(f.sectors, s)
		}
	}
	if len(f.sizes) > 0 {
		f.size, f.sizes = f.sizes[len(f.sizes)-1].size, nil
	}
	return 0
}

// syncDir is fsync of a directory.
func (d *Disk) syncDir(f *file) syscall.Errno {
	if e := d.fails(OpSyncDir); e != 0 {
		return e
	}
	f.safe, f.moved = maps.Clone(f.names), nil
	return 0
}

func (d *Disk) name(dir *file, n naming) syscall.Errno {
	if e := d.fails(OpName); e != 0 {
		return e
	}
	old := dir.names[n.name]
	n.on(dir.names)
	dir.moved = append(dir.moved, n)
	if old != nil {
		d.unused(old)
	}
	return 0
}

// unused frees the space of a file that has no name and that no program has open.
func (d *Disk) unused(f *file) {
	seen := map[uint64]bool{}
	if d.reach(d.files[1], seen); !seen[f.id] && f.open == 0 {
		d.used -= len(f.pages)
		clear(f.pages)
	}
}

// after returns the content of a file after a crash.
func (d *Disk) after(f *file, t Tear) []byte {
	if t == TearNone {
		return slices.Clone(f.data)
	}
	first := d.seq + 1
	for _, list := range f.sectors {
		first = min(first, list[0].seq)
	}
	if len(f.sizes) > 0 {
		first = min(first, f.sizes[0].seq)
	}
	cut := first - 1
	if t != TearAll {
		cut = d.cut(first)
	}
	size := f.size
	for _, v := range f.sizes {
		if v.seq <= cut {
			size = v.size
		}
	}
	out := make([]byte, size)
	for s, c := range f.kept {
		if s*Sector < size {
			copy(out[s*Sector:], c)
		}
	}
	cuts := map[int]int{}
	for _, s := range slices.Sorted(maps.Keys(f.sectors)) {
		list, at := f.sectors[s], cut
		switch t {
		case Tear512:
			at = d.cut(list[0].seq)
		case Tear4K:
			p := s * Sector / page
			if _, ok := cuts[p]; !ok {
				cuts[p] = d.cut(first)
			}
			at = cuts[p]
		}
		if s*Sector >= size {
			continue
		}
		for _, v := range list {
			if v.seq <= at {
				copy(out[s*Sector:], v.data)
			}
		}
	}
	return out
}

// cut is a moment since first, which is not before the last sync: what is later does not survive.
func (d *Disk) cut(first int) int { return first - 1 + d.rand.IntN(d.seq-first+2) }

// Crash ends the power and starts again. No program may have the disk meanwhile.
func (d *Disk) Crash(t Tear) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = nil
	if t == TearNone {
		// The kernel has what the process wrote, and may still lose it.
		for _, f := range d.files {
			f.open = 0
		}
		for _, f := range d.files {
			d.unused(f)
		}
		return
	}
	d.used = 0
	for _, id := range slices.Sorted(maps.Keys(d.files)) {
		f := d.files[id]
		f.open = 0
		if f.dir {
			f.names = d.namesAfter(f, t)
			f.safe, f.moved = maps.Clone(f.names), nil
			continue
		}
		f.data = d.after(f, t)
		f.kept, f.size = map[int][]byte{}, len(f.data)
		f.sectors, f.lost = map[int][]version{}, map[int]bool{}
		f.sizes = nil
		clear(f.pages)
		for s := 0; s*Sector < len(f.data); s++ {
			c := make([]byte, Sector)
			copy(c, f.data[s*Sector:])
			f.kept[s] = c
			f.pages[s*Sector/page] = true
		}
	}
	seen := map[uint64]bool{}
	d.reach(d.files[1], seen)
	for id, f := range d.files {
		if !seen[id] {
			delete(d.files, id)
		} else {
			d.used += len(f.pages)
		}
	}
}

func (d *Disk) reach(f *file, seen map[uint64]bool) {
	seen[f.id] = true
	for _, k := range f.names {
		if !seen[k.id] {
			d.reach(k, seen)
		}
	}
}

func (d *Disk) namesAfter(f *file, t Tear) map[string]*file {
	out := maps.Clone(f.safe)
	n := len(f.moved)
	switch t {
	case TearNone:
	case TearAll:
		n = 0
	default:
		n = d.rand.IntN(n + 1)
	}
	for _, m := range f.moved[:n] {
		m.on(out)
	}
	return out
}

// Image returns what a crash would leave of the file at path, or nil if it would leave none.
// The disk goes on as if nothing had happened.
func (d *Disk) Image(path string, t Tear) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.files[1]
	for part := range strings.SplitSeq(path, "/") {
		if f = d.namesAfter(f, t)[part]; f == nil {
			return nil
		}
	}
	return d.after(f, t)
}

// Read returns what a program reads from the file at path, or nil.
func (d *Disk) Read(path string) []byte { return d.Image(path, TearNone) }
