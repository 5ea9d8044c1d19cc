package process_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"heddle/daemon"
	"heddle/daemon/eventlog"
	"heddle/daemon/process"
	"heddle/ib"
	"heddle/internal/fabrictest"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/route/engine/auto"
	"heddle/sim"
	"heddle/sim/live"
	"heddle/sm"
	"heddle/store"
	"heddle/store/boltdb"
	"heddle/store/journal"
	"heddle/subnet"
	"heddle/subnet/checkpoint"
)

// alone is a manager alone that is started again and again.
type alone struct {
	t     *testing.T
	sim   *live.Driver
	dir   string
	said  bytes.Buffer // logged by the last one
	first *subnet.Snapshot
}

func newAlone(t *testing.T) *alone {
	t.Helper()
	f, err := fabrictest.Generate("xgft", []string{"2", "3,3", "1,3"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sim.New(f, sim.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	a := &alone{t: t, sim: live.New(s), dir: t.TempDir()}
	t.Cleanup(a.sim.Close)
	return a
}

// file is the path of the checkpoint.
func (a *alone) file() string { return filepath.Join(a.dir, checkpoint.FileName) }

// run runs a manager until the subnet is up, and ends it: as a signal does, or, if the device goes, otherwise.
// It reports whether the manager answered before it had read the subnet.
func (a *alone) run(goes bool) (warm bool) {
	t := a.t
	t.Helper()
	a.said.Reset()
	a.first = nil
	st, err := boltdb.Open(filepath.Join(a.dir, boltdb.FileName))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	log := slog.New(slog.NewTextHandler(&a.said, nil))
	ctx, cancel := context.WithTimeout(t.Context(), need.Patience)
	defer cancel()
	core := sm.Defaults()
	core.SMPTimeout = need.Patience // nobody is silent here, only late
	var port mad.Transport
	auth := &process.Single{
		Open: func(context.Context) (mad.Transport, error) {
			port, err = a.sim.Port("")
			return port, err
		},
		State:       st,
		Checkpoints: process.NewCheckpoints(a.dir, st, core.Prefix, core.LMC, log),
	}
	up := make(chan struct{}, 1)
	p := process.New(process.Config{Authority: auth, Log: log, New: func(m *process.Mandate, events *eventlog.Log) (*daemon.Daemon, error) {
		cfg := daemon.Config{
			Port: m.Port, Core: core, Store: m.Store, Events: events,
			OnPublish: func(s *subnet.Snapshot) {
				if s.Serves() && a.first == nil {
					a.first = s
					if _, err := os.Lstat(a.file()); err == nil && s.Warm {
						t.Error("the manager answers, and the checkpoint is still there")
					}
				}
				if s.Up {
					m.Published(s)
				}
			},
			OnUp: func(*subnet.Snapshot) { up <- struct{}{} },
		}
		cfg.Core.Engines, cfg.Core.MaxWindow = auto.Engines(), m.Port.MaxInFlight()
		cfg.Warm, cfg.Float = m.Warm()
		return daemon.New(cfg), journal.StartTerm(st, m.Port.PortGUID(), time.Now().UnixNano(), "start")
	}})
	end := make(chan error, 1)
	go func() { end <- p.Run(ctx) }()
	<-up
	if goes {
		port.Close()
	} else {
		cancel()
	}
	if err := <-end; goes != (err != nil) {
		t.Errorf("the manager ended with %v", err)
	}
	return a.first.Warm
}

// TestCheckpoints: a manager that is stopped leaves a checkpoint, which the next start uses, once. One that
// ends otherwise leaves none. What does not fit, or is damaged, is logged and not used.
func TestCheckpoints(t *testing.T) {
	a := newAlone(t)
	want := func(warm bool, said string) {
		t.Helper()
		if got := a.run(false); got != warm {
			t.Errorf("it answers before it has read the subnet: %v\n%s", got, &a.said)
		}
		if !strings.Contains(a.said.String(), said) {
			t.Errorf("it does not say %q:\n%s", said, &a.said)
		}
		for strings.Contains(a.said.String(), "under way") { // the trap of its port asked for a sweep
			a.run(false)
		}
		if _, err := os.Lstat(a.file()); err != nil {
			t.Errorf("it leaves no checkpoint: %v\n%s", err, &a.said)
		}
	}
	want(false, "")
	want(true, "")
	want(true, "")

	whole, err := os.ReadFile(a.file())
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(whole)
	damaged[len(damaged)/2] ^= 1
	if err := os.WriteFile(a.file(), damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	want(false, "damaged")
	if err := os.WriteFile(a.file(), whole, 0o600); err != nil { // of an earlier start
		t.Fatal(err)
	}
	want(false, "as of entry")
	a.store()
	want(false, "as of entry")

	if a.run(true) != true {
		t.Error("a checkpoint was not used")
	}
	if _, err := os.Lstat(a.file()); err == nil {
		t.Error("a manager whose device went left a checkpoint")
	}
	want(false, "")

	// What cannot be removed could be found again by a later start.
	if err := os.Remove(a.file()); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(a.file(), "more"), 0o700); err != nil {
		t.Fatal(err)
	}
	if a.run(false) {
		t.Error("it answers from a directory")
	}
	if s := a.said.String(); strings.Count(s, "kind=checkpoint") != 2 {
		t.Errorf("it says\n%s", s)
	}
}

// store stores something while no manager runs.
func (a *alone) store() {
	a.t.Helper()
	st, err := boltdb.Open(filepath.Join(a.dir, boltdb.FileName))
	if err != nil {
		a.t.Fatal(err)
	}
	defer st.Close()
	if err := st.Apply([]store.Op{{Kind: store.PutNeighbor, GUID: 1, Port: 1, Peer: ib.GUID(2)}}); err != nil {
		a.t.Fatal(err)
	}
}
