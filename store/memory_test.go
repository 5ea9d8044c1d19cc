package store_test

import (
	"testing"

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
