package process

import (
	"maps"
	"slices"

	"heddle/sa"
	"heddle/store"
)

// redeemAtOnce is how many records one write redeems at most.
const redeemAtOnce = 1024

// promises are records that cores without the term promised (daemon.Promises), by table and key. The last
// change of the term's owner may be in the state that they read, and be undone when the store is back, and
// they may lack changes of which nobody told.
type promises struct {
	promised map[string]store.Record
}

func promiseKey(r *store.Record) string { return string(append([]byte{byte(r.Table)}, r.Key...)) }

// Unsure implements daemon.Promises.
func (q *Quorum) Unsure() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stop == nil || q.why != nil || !q.Terms.Holds()
}

// Promise implements daemon.Promises.
func (q *Quorum) Promise(list []store.Record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.promised == nil {
		q.promised = map[string]store.Record{}
	}
	for i := range list {
		q.promised[promiseKey(&list[i])] = list[i]
	}
}

// redeem writes what was promised and is not stored, just after the term has been won: before the cores
// are started anew, and so before anybody is told otherwise. What cannot be written stays promised.
func (q *Quorum) redeem() {
	q.mu.Lock()
	list := slices.Collect(maps.Values(q.promised))
	q.mu.Unlock()
	if len(list) == 0 {
		return
	}
	st, _, err := q.Terms.Followed()
	if err != nil {
		q.log().Error("what hosts were told while the store was away cannot be compared with the store", "err", err)
		return
	}
	ops, dropped := sa.Redeem(st, list)
	if len(dropped) > 0 {
		q.log().Error("multicast groups that hosts were told of are lost: other groups have their MLIDs", "groups", dropped)
	}
	for some := range slices.Chunk(ops, redeemAtOnce) {
		if err := q.Terms.Apply(some); err != nil {
			q.log().Error("what hosts were told while the store was away cannot be written", "err", err)
			return
		}
	}
	if len(ops) > 0 {
		q.log().Warn("another manager withdrew what hosts were told while the store was away: it is stored again", "records", len(ops))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range list {
		delete(q.promised, promiseKey(&list[i]))
	}
}
