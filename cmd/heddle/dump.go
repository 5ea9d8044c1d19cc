package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/osmdump"
	"heddle/subnet"
)

// writeDump writes the published tables in OpenSM's dump formats.
func writeDump(dir string, s *subnet.Snapshot) error {
	if s == nil || s.Graph == nil || s.Tables == nil {
		return fmt.Errorf("--dump: there are no tables to write")
	}
	f, o := dumpedSubnet(s)
	return dumpFiles(dir, f, s.Graph, s.Tables, o)
}

// dumpedSubnet is the subnet as a dump shows it: links with their states, and which node has the
// manager.
func dumpedSubnet(s *subnet.Snapshot) (*fabric.Fabric, osmdump.SubnetOptions) {
	sm := -1
	if s.Self != subnet.NoRef() {
		sm = int(s.Self.Node)
	}
	state := func(r fabric.Ref) ib.PortState {
		if p := s.Port(subnet.Ref{Node: r.Node, Port: r.Port}); p != nil {
			return p.State()
		}
		return ib.StateDown
	}
	return s.Fabric(), osmdump.SubnetOptions{SM: sm, State: state}
}

// dumper keeps the dump files of a manager up to date. It writes changes
// outside the manager's loop, which must not wait for the files of a large
// fabric; of several pending changes only the last is written. A nil *dumper has nothing to write.
type dumper struct {
	dir  string
	told func(error) // gets the result of a write
	last *route.Tables
	next chan *subnet.Snapshot
	done chan struct{}
	mu   sync.Mutex // one write at a time
}

func newDumper(dir string, told func(error)) *dumper {
	d := &dumper{dir: dir, told: told, next: make(chan *subnet.Snapshot, 1), done: make(chan struct{})}
	go func() {
		defer close(d.done)
		for s := range d.next {
			d.told(d.write(s))
		}
	}()
	return d
}

func (d *dumper) write(s *subnet.Snapshot) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return writeDump(d.dir, s)
}

// up writes synchronously, so that the files exist when the subnet is reported
// up.
func (d *dumper) up(s *subnet.Snapshot) error {
	if d == nil {
		return nil
	}
	if s != nil {
		d.last = s.Tables
	}
	return d.write(s)
}

// changed receives every snapshot, from the goroutine that calls up.
func (d *dumper) changed(s *subnet.Snapshot) {
	if d == nil || d.last == nil || !s.Up || s.Tables == nil || s.Tables == d.last {
		return
	}
	d.last = s.Tables
	select {
	case <-d.next:
	default:
	}
	d.next <- s
}

// close waits for the write in progress.
func (d *dumper) close() {
	if d == nil {
		return
	}
	close(d.next)
	<-d.done
}

// dumpFabric writes tables computed offline.
func dumpFabric(dir string, f *fabric.Fabric, g *fabric.Graph, t *route.Tables) error {
	return dumpFiles(dir, f, g, t, osmdump.SubnetOptions{SM: -1})
}

func dumpFiles(dir string, f *fabric.Fabric, g *fabric.Graph, t *route.Tables, o osmdump.SubnetOptions) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("--dump: %w", err)
	}
	type dump struct {
		name  string
		write func(io.Writer) error
	}
	dumps := []dump{
		{"opensm-subnet.lst", func(w io.Writer) error { return osmdump.WriteSubnet(w, f, o) }},
		{"opensm.fdbs", func(w io.Writer) error { return osmdump.WriteFDBs(w, g, t) }},
		{"opensm.mcfdbs", func(w io.Writer) error { return osmdump.WriteMCFDBs(w, g, osmdump.Groups(g, t.Multicast)) }},
	}
	lanes := []dump{
		{"opensm-path-sl.dump", func(w io.Writer) error { return osmdump.WritePathSL(w, g, t) }},
		{"opensm-sl2vl.dump", func(w io.Writer) error { return osmdump.WriteSL2VL(w, g, t) }},
	}
	if t.NumVLs > 1 || t.SL != nil || t.Lanes != nil {
		dumps = append(dumps, lanes...)
	} else { // a file of earlier tables would mislead
		for _, d := range lanes {
			if err := os.Remove(filepath.Join(dir, d.name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("--dump: %w", err)
			}
		}
	}
	for _, d := range dumps {
		if err := writeFile(filepath.Join(dir, d.name), d.write); err != nil {
			return fmt.Errorf("--dump: %w", err)
		}
	}
	return nil
}

// writeFile replaces a file atomically, so a reader never sees a partial one.
func writeFile(path string, write func(io.Writer) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	err = write(tmp)
	if err == nil {
		err = tmp.Chmod(0o644)
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
