package daemon

import (
	"sync"

	"heddle/ib"
	"heddle/vm"
)

// askedKeys are the P_Keys that requests about interfaces ask for. A request holds its P_Keys before it
// reads the policy to see whether its tenant may have them, and until the view of interfaces shows its
// outcome. Who chooses a P_Key for a new partition reads the policy, then the P_Keys that are held, then
// the view. So of a request and a choice of the same P_Key, either the choice sees that the request holds
// it or what became of it, or the request sees a policy in which its tenant does not have the P_Key.
type askedKeys struct {
	mu sync.Mutex
	n  map[ib.PKey]int // how many requests hold it; guarded by mu
}

// hold adds P_Keys until release is called.
func (a *askedKeys) hold(keys []ib.PKey) (release func()) {
	a.add(keys, 1)
	return sync.OnceFunc(func() { a.add(keys, -1) })
}

func (a *askedKeys) add(keys []ib.PKey, by int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n == nil {
		a.n = map[ib.PKey]int{}
	}
	for _, k := range keys {
		if a.n[k] += by; a.n[k] == 0 {
			delete(a.n, k)
		}
	}
}

// list returns the P_Keys that are held.
func (a *askedKeys) list() (keys []ib.PKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for k := range a.n {
		keys = append(keys, k)
	}
	return keys
}

// keysOf are the P_Keys that operations may add to interfaces or ports.
func keysOf(ops []vm.Op) (keys []ib.PKey) {
	add := func(list []vm.Membership) {
		for _, m := range list {
			keys = append(keys, m.PKey.Base())
		}
	}
	for _, op := range ops {
		switch op := op.(type) {
		case vm.Create:
			add(op.I.Keys)
		case vm.SetKeys:
			add(op.Keys)
		case vm.AddMembers:
			keys = append(keys, op.PKey.Base())
		}
	}
	return keys
}
