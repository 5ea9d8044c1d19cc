package etcdmodel

import (
	"context"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Client is one client, with its connection. It is an etcd.Cluster.
type Client struct {
	c *Cluster

	mu      sync.Mutex
	cut     bool          // guarded by mu
	stopped chan struct{} // not nil: closed when the process goes on. Guarded by mu
}

// Client returns a new client.
func (c *Cluster) Client() *Client { return &Client{c: c} }

// Cut has all be lost between the client and the cluster, or not any more.
func (l *Client) Cut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
}

// Stop stops the client's process, and has it go on: what it sends and what it gets waits.
func (l *Client) Stop(stop bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case stop && l.stopped == nil:
		l.stopped = make(chan struct{})
	case !stop && l.stopped != nil:
		close(l.stopped)
		l.stopped = nil
	}
}

// running waits until the process goes on.
func (l *Client) running() {
	for {
		l.mu.Lock()
		stopped := l.stopped
		l.mu.Unlock()
		if stopped == nil {
			return
		}
		<-stopped
	}
}

func (l *Client) isCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

// travel is one way between client and cluster. lost: it does not arrive.
func (l *Client) travel(ctx context.Context) (lost bool, err error) {
	c := l.c
	c.mu.Lock()
	d, lost := c.between(100*time.Microsecond, 4*time.Millisecond), c.chance(c.faults.Lost)
	c.mu.Unlock()
	if err := sleep(ctx, d); err != nil {
		return true, err
	}
	return lost || l.isCut(), nil
}

// Txn implements etcd.Cluster.
func (l *Client) Txn(ctx context.Context) clientv3.Txn { return &txn{l: l, ctx: ctx} }

type txn struct {
	l         *Client
	ctx       context.Context
	when      []clientv3.Cmp
	then, els []clientv3.Op
}

func (x *txn) If(c ...clientv3.Cmp) clientv3.Txn  { x.when = c; return x }
func (x *txn) Then(o ...clientv3.Op) clientv3.Txn { x.then = o; return x }
func (x *txn) Else(o ...clientv3.Op) clientv3.Txn { x.els = o; return x }

// Commit implements clientv3.Txn.
func (x *txn) Commit() (*clientv3.TxnResponse, error) {
	l, c, ctx := x.l, x.l.c, x.ctx
	l.running()
	if lost, err := l.travel(ctx); err != nil {
		return nil, err
	} else if lost {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	c.mu.Lock()
	if late := c.chance(c.faults.Late); late {
		d := c.between(0, LateMost)
		c.mu.Unlock()
		go func() {
			_ = sleep(context.Background(), d)
			c.mu.Lock()
			defer c.mu.Unlock()
			_, _ = c.commit(l, x.when, x.then, x.els)
		}()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for wait := time.Until(c.leader); wait > 0; wait = time.Until(c.leader) {
		changed := c.chance(0.3)
		c.mu.Unlock()
		if changed {
			return nil, rpctypes.ErrLeaderChanged
		}
		if err := sleep(ctx, wait); err != nil {
			return nil, err
		}
		c.mu.Lock()
	}
	r, err := c.commit(l, x.when, x.then, x.els)
	c.mu.Unlock()
	if lost, err := l.travel(ctx); err != nil {
		return nil, err
	} else if lost {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	l.running()
	return r, err
}

// Compact implements etcd.Cluster.
func (l *Client) Compact(ctx context.Context, rev int64, _ ...clientv3.CompactOption) (*clientv3.CompactResponse, error) {
	if lost, err := l.travel(ctx); err != nil || lost {
		return nil, rpctypes.ErrTimeout
	}
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	return &clientv3.CompactResponse{}, l.c.compact(rev)
}

// Watch implements etcd.Cluster. It brings puts alone.
func (l *Client) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	o := clientv3.OpGet(key, opts...)
	out := make(chan clientv3.WatchResponse)
	go func() {
		defer close(out)
		l.watch(ctx, key, string(o.RangeBytes()), o.Rev()-1, out)
	}()
	return out
}

func (l *Client) watch(ctx context.Context, key, end string, after int64, out chan<- clientv3.WatchResponse) {
	c := l.c
	for {
		c.mu.Lock()
		if after < c.compacted-1 {
			rev := c.compacted
			c.mu.Unlock()
			send(ctx, out, clientv3.WatchResponse{CompactRevision: rev, Canceled: true})
			return
		}
		list, news := c.events(key, end, after), c.news
		after = c.rev
		skipped := list[:0]
		for _, ev := range list {
			if !c.chance(c.faults.Skip) {
				skipped = append(skipped, ev)
			}
		}
		ends := len(list) > 0 && c.chance(c.faults.Break)
		c.mu.Unlock()
		if lost, err := l.travel(ctx); err != nil {
			return
		} else if lost {
			// The client notices when its pings are not answered.
			if sleep(ctx, 3*time.Second) != nil || l.isCut() {
				return
			}
		}
		l.running()
		if len(skipped) > 0 && !send(ctx, out, clientv3.WatchResponse{Events: skipped}) {
			return
		}
		if ends {
			return
		}
		select {
		case <-news:
		case <-ctx.Done():
			return
		}
	}
}

func send(ctx context.Context, out chan<- clientv3.WatchResponse, r clientv3.WatchResponse) bool {
	select {
	case out <- r:
		return true
	case <-ctx.Done():
		return false
	}
}

// Close implements etcd.Cluster.
func (l *Client) Close() error { return nil }
