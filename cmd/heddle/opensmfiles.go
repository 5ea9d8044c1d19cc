package main

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"heddle/ib"
	"heddle/opensm"
	"heddle/route/osmdump"
	"heddle/store"
	"heddle/subnet"
)

// opensmFiles keeps the files that scripts for OpenSM read: guid2lid, opensm-subnet.lst, and a log
// with the lines that they look for. A nil *opensmFiles keeps none.
type opensmFiles struct {
	lids, list, path string
	warn             *slog.Logger
	seen             uint64 // hash of the subnet that was written last; the loop's

	next chan opensmWork
	done chan struct{}
	mu   sync.Mutex // one write at a time
	last []byte     // guid2lid as it was written; guarded by mu

	logMu   sync.Mutex
	log     *os.File // guarded by logMu
	signals chan os.Signal
}

// opensmWork is a subnet to write, with the store that has its LIDs.
type opensmWork struct {
	s  *subnet.Snapshot
	st store.Store
}

// opensmFiles starts to keep the files, if that is wanted.
func (f smFlags) opensmFiles(warn *slog.Logger) (*opensmFiles, error) {
	dir := f.Files.OpenSM
	if dir == "" {
		return nil, nil
	}
	cache, logs := filepath.Join(dir, "var/cache/opensm"), filepath.Join(dir, "var/log")
	if err := errors.Join(os.MkdirAll(cache, 0o755), os.MkdirAll(logs, 0o755)); err != nil {
		return nil, fmt.Errorf("%s: %w", f.From("opensm-compatible"), err)
	}
	x := &opensmFiles{
		lids: filepath.Join(cache, opensm.FileLIDs), list: filepath.Join(logs, "opensm-subnet.lst"), path: filepath.Join(logs, "opensm.log"),
		warn: warn, next: make(chan opensmWork, 1), done: make(chan struct{}), signals: make(chan os.Signal, 1),
	}
	if err := x.open(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.From("opensm-compatible"), err)
	}
	signal.Notify(x.signals, syscall.SIGUSR1)
	go x.run()
	return x, nil
}

// open opens the log, in place of one that is open.
func (x *opensmFiles) open() error {
	file, err := os.OpenFile(x.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	x.logMu.Lock()
	defer x.logMu.Unlock()
	if x.log != nil {
		x.log.Close()
	}
	x.log = file
	return nil
}

func (x *opensmFiles) run() {
	defer close(x.done)
	for {
		select {
		case w, ok := <-x.next:
			if !ok {
				return
			}
			x.write(w)
		case <-x.signals:
			if err := x.open(); err != nil {
				x.warn.Error("the log for scripts could not be opened again", "err", err)
			}
		}
	}
}

// line writes a line in the form of OpenSM's log.
func (x *opensmFiles) line(text string) {
	now := time.Now()
	x.logMu.Lock()
	defer x.logMu.Unlock()
	if _, err := fmt.Fprintf(x.log, "%s %06d [%08X] 0x80 -> %s\n", now.Format("Jan 02 15:04:05"), now.Nanosecond()/1000, os.Getpid(), text); err != nil {
		x.warn.Error("the log for scripts could not be written", "err", err)
	}
}

// entering notes a state of the mastership.
func (x *opensmFiles) entering(s subnet.SMState) {
	if x != nil {
		x.line("Entering " + s.String() + " state")
	}
}

// up writes the files before the subnet is reported up.
func (x *opensmFiles) up(s *subnet.Snapshot, st store.Store) {
	if x == nil || s == nil {
		return
	}
	x.seen = look(s)
	x.write(opensmWork{s, st})
	x.line("SUBNET UP")
}

// changed writes the files again if what they show is another, outside the loop.
func (x *opensmFiles) changed(s *subnet.Snapshot, st store.Store) {
	if x == nil || !s.Up || x.seen == 0 {
		return
	}
	now := look(s)
	if now == x.seen {
		return
	}
	x.seen = now
	select {
	case <-x.next: // an older one that nobody has begun
	default:
	}
	x.next <- opensmWork{s, st}
}

var lookSeed = maphash.MakeSeed()

// look is a hash of what the files show of a subnet; never 0.
func look(s *subnet.Snapshot) uint64 {
	var h maphash.Hash
	h.SetSeed(lookSeed)
	for i := range s.Nodes {
		maphash.WriteComparable(&h, struct {
			guid ib.GUID
			name string
		}{s.Nodes[i].Info.NodeGUID, s.Nodes[i].Desc})
	}
	for _, p := range s.Ports {
		maphash.WriteComparable(&h, struct {
			guid  ib.GUID
			lid   ib.LID
			lmc   uint8
			state ib.PortState
			peer  subnet.Ref
			width ib.LinkWidth
			speed ib.LinkSpeed
		}{p.GUID, p.LID, p.LMC, p.State(), p.Peer, p.Info.LinkWidthActive, s.Speed(p)})
	}
	return h.Sum64() | 1
}

func (x *opensmFiles) write(w opensmWork) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f, o := dumpedSubnet(w.s)
	err := writeFile(x.list, func(out io.Writer) error { return osmdump.WriteSubnet(out, f, o) })
	stored, loadErr := w.st.Load()
	if loadErr == nil {
		var b bytes.Buffer
		if err := opensm.WriteLIDs(&b, stored.LIDs); err == nil && !bytes.Equal(b.Bytes(), x.last) {
			loadErr = writeFile(x.lids, func(out io.Writer) error { _, err := out.Write(b.Bytes()); return err })
			x.last = b.Bytes()
		}
	}
	if err := errors.Join(err, loadErr); err != nil {
		x.warn.Error("files for scripts could not be written", "err", err)
	}
}

// close waits for the write in progress.
func (x *opensmFiles) close() {
	if x == nil {
		return
	}
	signal.Stop(x.signals)
	close(x.next)
	<-x.done
	x.line("Exiting SM")
	x.logMu.Lock()
	defer x.logMu.Unlock()
	x.log.Close()
}
