package lab

import (
	"strings"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
)

// TestDrainAfterRestart: a manager that dies with a drain stored, and tables over the link installed, is
// followed by one that drains the link in its first sweep, and loses no packet: the link still carries data,
// although its graph does not have it.
func TestDrainAfterRestart(t *testing.T) {
	f, err := fabric.Generate(fabric.XGFT{Children: []int{4, 4}, Parents: []int{1, 4}}, fabric.GenerateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, m := bringUp(t, f, timed(1), DefaultConfig())
	mustUp(t, c, m)
	e := traffic(t, c, 5)
	run := func(d time.Duration) {
		for range d / (10 * time.Microsecond) {
			_ = c.RunUntil(10*time.Microsecond, func() bool { return false })
		}
	}
	run(200 * time.Microsecond)
	var at fabric.Ref
	for _, a := range trunks(f) {
		if e.Port(a).XmitPackets > 0 && routesOver(c, a) > 0 {
			at = a
			break
		}
	}
	if at.Port == 0 {
		t.Fatal("no link carries packets")
	}
	a := action(f, subnet.Drain, at)
	if err := m.Store.Apply([]store.Op{{Kind: store.PutRecord, Record: store.Record{Table: store.TablePortActions, Key: a.Key(), Value: a.Value()}}}); err != nil {
		t.Fatal(err)
	}
	st := m.Store
	m.Kill()
	next, err := c.Start(firstCA(f), DefaultConfig(), st)
	if err != nil {
		t.Fatal(err)
	}
	for limit := 200; limit > 0 && (routesOver(c, at) > 0 || !next.Up()); limit-- {
		run(500 * time.Microsecond)
	}
	if n := routesOver(c, at); n > 0 {
		t.Fatalf("%d entries lead over the drained link\n%s", n, strings.Join(next.Events(sm.Info), "\n"))
	}
	run(time.Millisecond)
	if said := strings.Join(next.Events(sm.Info), "\n"); strings.Contains(said, "broken") {
		t.Errorf("a drained link breaks nothing:\n%s", said)
	}
	if st := e.Stats(); st.Drops() != 0 {
		t.Errorf("lost %v\n%s", st.Dropped, strings.Join(next.Events(sm.Info), "\n"))
	}
	if err := e.Check(); err != nil {
		t.Error(err)
	}
}
