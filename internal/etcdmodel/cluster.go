// Package etcdmodel is a cluster of etcd in memory, as a client of it sees the real one: linearizable
// transactions, revisions, watches, compaction. Between it and each client are faults: delays, requests
// and answers that are lost, requests that are carried out when nobody waits for them any more, times
// without a leader, watches that end or skip an event, clients that are cut off or stopped.
//
// It is for tests in virtual time (testing/synctest): all waits are timers. What happens follows from the
// seed, except for the order of what happens at the same nanosecond.
package etcdmodel

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Faults are how often what goes wrong, from 0 to 1.
type Faults struct {
	Lost  float64 // requests, and answers
	Late  float64 // requests that are carried out up to LateMost later, without an answer
	Skip  float64 // events that a watch does not bring
	Break float64 // watches that end after an event
}

// LateMost is how late a request may be.
const LateMost = 5 * time.Second

// Cluster is the cluster.
type Cluster struct {
	// OnWrite is called for each transaction that writes, before it takes effect, with the keys that it
	// puts; nil: nobody wants to know. It must not call the cluster.
	OnWrite func(by *Client, puts map[string]string)

	mu        sync.Mutex
	rng       *rand.Rand
	faults    Faults
	rev       int64
	compacted int64
	keys      map[string][]version // ascending by revision
	leader    time.Time            // when there is one again
	news      chan struct{}        // closed at the next write
}

// version is the value of a key from a revision on.
type version struct {
	mod, create, n int64
	value          string
	gone           bool
}

// New returns an empty cluster.
func New(seed uint64) *Cluster {
	return &Cluster{rng: rand.New(rand.NewPCG(seed, 0xe7cd)), rev: 1, keys: map[string][]version{}, news: make(chan struct{})}
}

// Set changes the faults.
func (c *Cluster) Set(f Faults) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = f
}

// Elect leaves the cluster without a leader for a while.
func (c *Cluster) Elect(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leader = time.Now().Add(d)
}

// chance is a fault that happens with a probability. The holder of mu calls it.
func (c *Cluster) chance(p float64) bool { return p > 0 && c.rng.Float64() < p }

// between is a random time. The holder of mu calls it.
func (c *Cluster) between(a, b time.Duration) time.Duration {
	return a + time.Duration(c.rng.Int64N(int64(b-a)))
}

// latest is the value of a key, ok false if there is none. The holder of mu calls it.
func (c *Cluster) latest(key string) (v version, ok bool) { return c.asOf(key, c.rev) }

func (c *Cluster) asOf(key string, rev int64) (v version, ok bool) {
	for _, v := range slices.Backward(c.keys[key]) {
		if v.mod <= rev {
			return v, !v.gone
		}
	}
	return version{}, false
}

// holds evaluates a condition. The holder of mu calls it.
func (c *Cluster) holds(x *clientv3.Cmp) bool {
	v, ok := c.latest(string(x.GetCompare().Key))
	if !ok {
		v = version{}
	}
	order := 0
	switch t := x.GetCompare().TargetUnion.(type) {
	case *pb.Compare_ModRevision:
		order = cmp.Compare(v.mod, t.ModRevision)
	case *pb.Compare_CreateRevision:
		order = cmp.Compare(v.create, t.CreateRevision)
	case *pb.Compare_Value:
		if !ok {
			return false
		}
		order = cmp.Compare(v.value, string(t.Value))
	default:
		panic("etcdmodel: a condition that it does not know")
	}
	if x.GetCompare().Result != pb.Compare_EQUAL {
		panic("etcdmodel: a comparison that it does not know")
	}
	return order == 0
}

// commit carries out a transaction. The holder of mu calls it.
func (c *Cluster) commit(by *Client, when []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	r := &clientv3.TxnResponse{Succeeded: true, Header: &pb.ResponseHeader{}}
	for i := range when {
		r.Succeeded = r.Succeeded && c.holds(&when[i])
	}
	ops := then
	if !r.Succeeded {
		ops = otherwise
	}
	puts, writes := map[string]string{}, false
	for _, o := range ops {
		if o.IsPut() {
			puts[string(o.KeyBytes())] = string(o.ValueBytes())
		}
		writes = writes || !o.IsGet()
		if o.IsGet() && o.Rev() > 0 && o.Rev() < c.compacted {
			return nil, rpctypes.ErrCompacted
		}
	}
	if writes && c.OnWrite != nil {
		c.OnWrite(by, puts)
	}
	next, wrote := c.rev+1, false
	for _, o := range ops {
		switch {
		case o.IsPut():
			key := string(o.KeyBytes())
			v := version{mod: next, create: next, n: 1, value: string(o.ValueBytes())}
			if was, ok := c.latest(key); ok {
				v.create, v.n = was.create, was.n+1
			}
			c.keys[key] = append(c.keys[key], v)
			wrote = true
			r.Responses = append(r.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{}}})
		case o.IsDelete():
			for _, key := range c.span(string(o.KeyBytes()), string(o.RangeBytes())) {
				if _, ok := c.latest(key); ok {
					c.keys[key] = append(c.keys[key], version{mod: next, gone: true})
					wrote = true
				}
			}
			r.Responses = append(r.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: &pb.DeleteRangeResponse{}}})
		default:
			r.Responses = append(r.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: c.read(o)}})
		}
	}
	if wrote {
		c.rev = next
		close(c.news)
		c.news = make(chan struct{})
	}
	r.Header.Revision = c.rev
	return r, nil
}

// span are the keys from one on and before an end, or that one alone. The holder of mu calls it.
func (c *Cluster) span(key, end string) []string {
	if end == "" {
		return []string{key}
	}
	var list []string
	for k := range c.keys {
		if k >= key && k < end {
			list = append(list, k)
		}
	}
	slices.Sort(list)
	return list
}

// read carries out a get. The holder of mu calls it.
func (c *Cluster) read(o clientv3.Op) *pb.RangeResponse {
	r := &pb.RangeResponse{}
	rev := cmp.Or(o.Rev(), c.rev)
	for _, key := range c.span(string(o.KeyBytes()), string(o.RangeBytes())) {
		v, ok := c.asOf(key, rev)
		if !ok {
			continue
		}
		r.Count++
		if o.Limit() > 0 && int64(len(r.Kvs)) >= o.Limit() {
			r.More = true
			continue
		}
		kv := &mvccpb.KeyValue{Key: []byte(key), ModRevision: v.mod, CreateRevision: v.create, Version: v.n}
		if !o.IsKeysOnly() {
			kv.Value = []byte(v.value)
		}
		r.Kvs = append(r.Kvs, kv)
	}
	return r
}

// compact forgets the history before a revision. The holder of mu calls it.
func (c *Cluster) compact(rev int64) error {
	if rev <= c.compacted {
		return rpctypes.ErrCompacted
	}
	c.compacted = rev
	for key, list := range maps.Clone(c.keys) {
		first := 0
		for i, v := range list {
			if v.mod <= rev {
				first = i
			}
		}
		if list = list[first:]; len(list) == 1 && list[0].gone && list[0].mod <= rev {
			delete(c.keys, key)
		} else {
			c.keys[key] = list
		}
	}
	return nil
}

// events are the puts of a range after a revision. The holder of mu calls it.
func (c *Cluster) events(key, end string, after int64) (list []*clientv3.Event) {
	for _, k := range c.span(key, end) {
		for _, v := range c.keys[k] {
			if v.mod > after && !v.gone {
				list = append(list, &clientv3.Event{Type: clientv3.EventTypePut, Kv: &mvccpb.KeyValue{
					Key: []byte(k), Value: []byte(v.value), ModRevision: v.mod, CreateRevision: v.create, Version: v.n,
				}})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b *clientv3.Event) int { return cmp.Compare(a.Kv.ModRevision, b.Kv.ModRevision) })
	return list
}

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
