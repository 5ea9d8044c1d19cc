package store_test

import (
	"testing"

	"heddle/ib"
	"heddle/internal/storetest"
	"heddle/store"
)

func TestMemory(t *testing.T) {
	kept := map[string]*store.Memory{}
	storetest.Run(t, func(t *testing.T) store.Store {
		m := kept[t.Name()]
		if m == nil {
			m = store.NewMemory()
		} else {
			m = m.Reopen()
		}
		kept[t.Name()] = m
		return m
	})
}

// TestMemoryFails: FailNext makes writes fail, for transcripts.
func TestMemoryFails(t *testing.T) {
	m := store.NewMemory()
	m.FailNext = 1
	op := []store.Op{{Kind: store.PutLID, GUID: 1, LID: 1}}
	if m.Apply(op) == nil {
		t.Fatal("the injected failure did not come")
	}
	if st, err := m.Load(); err != nil || len(st.LIDs) != 0 {
		t.Fatalf("%+v, %v after a failed Apply", st, err)
	}
	if err := m.Apply(op); err != nil {
		t.Fatal(err)
	}
}

// TestMemoryMKey: the M_Key of one port is read without a copy of all entries.
func TestMemoryMKey(t *testing.T) {
	m := store.NewMemory()
	ops := []store.Op{{Kind: store.PutMKey, GUID: 7, MKey: 70}}
	for g := range ib.GUID(1000) {
		ops = append(ops, store.Op{Kind: store.PutLID, GUID: g + 1, LID: ib.LID(g + 1)})
	}
	if err := m.Apply(ops); err != nil {
		t.Fatal(err)
	}
	if key, ok := m.MKey(7); !ok || key != 70 {
		t.Errorf("the M_Key of 7 is %v, %v", key, ok)
	}
	if _, ok := m.MKey(8); ok {
		t.Error("8 has an M_Key")
	}
	if n := testing.AllocsPerRun(10, func() { m.MKey(7) }); n != 0 {
		t.Errorf("a look allocates %v times", n)
	}
}

// BenchmarkMKey compares a look at one M_Key with what it took to load all: 11,664 hosts.
func BenchmarkMKey(b *testing.B) {
	m := store.NewMemory()
	for g := range ib.GUID(11664) {
		op := []store.Op{{Kind: store.PutLID, GUID: g + 1, LID: ib.LID(g + 1)}, {Kind: store.PutMKey, GUID: g + 1, MKey: 1}}
		if err := m.Apply(op); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.MKey(7)
		}
	})
	b.Run("all", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := m.Load(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
