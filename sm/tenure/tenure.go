// Package tenure decides whether a manager's store is complete: whether it has all entries that the
// devices of the subnet hold.
//
// A manager that takes over with a separate store finds P_Keys and addresses of virtual machines
// that another manager assigned. Its store does not have them, so they look like foreign entries.
// To revoke them would cause an outage. Tenure is a part of a subnet manager that distinguishes the
// two. Its input is the contents of the store (Load), the other managers that were seen (Other),
// and the last master that the fabric names (Begin). Its output is one answer, Keeps, and a record
// that makes it durable.
//
// A store may be incomplete if
//
//   - it was empty when this mastership began: it is the first with this store;
//   - another manager was seen to be master, in this mastership or since the last one of this store;
//   - ports name a LID as that of their master that belongs neither to our port nor to the one whose
//     mastership was the last with this store: there was another master while this one did not run.
//
// This decision stays, over restarts, until no entry is left that the store does not know
// (Settled). In all other cases the last master wrote the store, and entries that the store does
// not know are foreign. That includes a store that moved with its directory to another machine. A
// copy of such a store cannot be distinguished from it.
package tenure

import (
	"encoding/json"
	"fmt"
	"slices"

	"heddle/ib"
	"heddle/sm/env"
	"heddle/sm/notice"
	"heddle/store"
	"heddle/subnet"
)

// recordKey is the key of the record in store.TablePartitions (docs/format/store.md).
const recordKey = "tenure"

// recordVersion is the version of its layout.
const recordVersion = 1

// record is what is stored.
type record struct {
	Version int
	// Manager is the port GUID of the last master with this store, or of its partner.
	Manager ib.GUID
	// Keep: another manager gave what this store does not know.
	Keep bool `json:",omitempty"`
	// Decided are P_Keys, without the membership bit, about which an administrator decided
	// since: what the store does not know of them is foreign. They ascend.
	Decided []ib.PKey `json:",omitempty"`
}

// Tenure belongs to one manager.
type Tenure struct {
	*env.Env
	rec   record
	found bool // the store had a record, or has one now
	empty bool // the store held nothing
	other bool // another manager was seen since the last mastership, or there was none yet
	late  bool // the record is to be stored with the next mastership
	why   string

	raised bool // Keep because of Other, which the fabric need not show again; not stored yet
	unsure bool // the store may have what this manager does not know
}

// New returns the tenure of a manager that has not started. It keeps nothing.
func New(e *env.Env) *Tenure { return &Tenure{Env: e, empty: true, other: true} }

// Load takes the contents of the store, nil if it is empty. A record that cannot be read counts as
// a record of another manager.
func (t *Tenure) Load(st *store.State) {
	if st == nil {
		return
	}
	t.empty = len(st.LIDs)+len(st.MKeys)+len(st.Records) == 0
	for i := range st.Records {
		r := &st.Records[i]
		if r.Table != store.TablePartitions || string(r.Key) != recordKey {
			continue
		}
		rec, err := decode(r.Value)
		if err != nil {
			t.Notify(notice.Notice{
				Kind: notice.KindKept, Level: notice.Warn, Err: err,
				Text: "the record of the last mastership cannot be read, so what other managers gave is kept",
			})
			rec = record{Version: recordVersion, Keep: true}
		}
		t.rec, t.found = rec, true
	}
}

func decode(b []byte) (rec record, err error) {
	if err := json.Unmarshal(b, &rec); err != nil {
		return record{}, fmt.Errorf("tenure: the stored record: %w", err)
	}
	if rec.Version != recordVersion {
		return record{}, fmt.Errorf("tenure: the stored record: version %d is not known", rec.Version)
	}
	slices.Sort(rec.Decided)
	rec.Decided = slices.Compact(rec.Decided)
	return rec, nil
}

// op stores the record.
func (t *Tenure) op() store.Op {
	t.rec.Version = recordVersion
	b, err := json.Marshal(t.rec)
	if err != nil {
		panic("tenure: numbers cannot be encoded: " + err.Error())
	}
	r := store.Record{Table: store.TablePartitions, Key: []byte(recordKey), Value: b}
	return store.Op{Kind: store.PutRecord, Record: r}
}

// Other notes that another manager is master of the subnet, or of a part of it. Of a pair only the
// master stores the record.
func (t *Tenure) Other(guid ib.GUID) {
	if t.Config.PlanOnly {
		return
	}
	t.other, t.why = true, "manager "+guid.String()+" was master"
	if t.found && t.rec.Keep {
		return
	}
	t.rec.Keep, t.found, t.raised = true, true, true
	if t.Config.Partner != 0 && t.State != subnet.Master {
		t.late = true
		return
	}
	t.Save([]store.Op{t.op()})
}

// Begin begins a mastership. masters are the LIDs that ports name as their manager's, and has
// reports whether the store has a LID for a port. It reports whether devices may have entries that
// were assigned since the last mastership of this process.
func (t *Tenure) Begin(masters []ib.LID, has func(port ib.GUID, l ib.LID) bool) (others bool) {
	if t.Config.PlanOnly {
		return false
	}
	was, p := t.rec, t.Config.Partner
	defer func() { t.other = false }()
	switch {
	case t.rec.Keep:
		if t.why == "" {
			t.why = "another manager was master before"
		}
	case !t.found && t.empty:
		t.rec.Keep, t.why = true, "it is the first mastership with this store"
	default:
		for _, l := range masters {
			if l.IsUnicast() && !has(t.Config.PortGUID, l) && !has(t.rec.Manager, l) && (p == 0 || !has(p, l)) {
				t.other, t.rec.Keep, t.why = true, true, "ports name LID "+l.String()+" as that of their master"
				break
			}
		}
	}
	if p == 0 || t.rec.Manager != p {
		// For the partner either of the two will do: to write it at each takeover would hold up
		// the first sweep until the write counts.
		t.rec.Manager = t.Config.PortGUID
	}
	if !t.found || t.late || was.Manager != t.rec.Manager || was.Keep != t.rec.Keep {
		t.found, t.late = true, false
		t.Save([]store.Op{t.op()})
	}
	return t.other
}

// Keeps reports whether entries that the store does not know are kept, because another manager may
// have assigned them.
func (t *Tenure) Keeps() bool { return (t.rec.Keep || t.unsure) && !t.Config.StrictPartitions }

// SetUnsure sets whether the store may have entries that this manager does not know, because the
// store was unavailable. This is not stored.
func (t *Tenure) SetUnsure(on bool) { t.unsure = on }

// MustSave reports whether the record has to be durable before anything is written in the fabric:
// it records that another manager was master, and our writes may hide that.
func (t *Tenure) MustSave() bool { return t.raised }

// Saved notes that the record is durable.
func (t *Tenure) Saved() { t.raised = false }

// Why is the reason that the store may be incomplete; "" if it is complete.
func (t *Tenure) Why() string {
	switch {
	case t.rec.Keep:
		return t.why
	case t.unsure:
		return "the store cannot be asked"
	}
	return ""
}

// Settled records that no entry is left that the store does not know.
func (t *Tenure) Settled() {
	if !t.rec.Keep {
		return
	}
	t.rec.Keep, t.rec.Decided, t.why = false, nil, ""
	t.Save([]store.Op{t.op()})
}

// Decide records that an administrator decided about P_Keys, without their membership bits: unknown
// entries of them are no longer kept. It returns the operations to be stored with the decision.
func (t *Tenure) Decide(keys []ib.PKey) []store.Op {
	if !t.rec.Keep || len(keys) == 0 {
		return nil
	}
	t.rec.Decided = append(t.rec.Decided, keys...)
	slices.Sort(t.rec.Decided)
	t.rec.Decided = slices.Compact(t.rec.Decided)
	return []store.Op{t.op()}
}

// Decided reports whether an administrator decided about a P_Key, whatever its membership bit.
func (t *Tenure) Decided(k ib.PKey) bool {
	_, ok := slices.BinarySearch(t.rec.Decided, k.Base())
	return ok
}
