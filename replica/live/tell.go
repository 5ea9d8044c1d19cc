package live

import (
	"context"

	"heddle/replica/wire"
)

// telling is what a stream tells of events. It is written when no entry and no query waits, so an entry waits for
// one message at most.
type telling struct {
	ctx  context.Context
	end  context.CancelFunc
	told chan []byte
}

func newTelling(parent context.Context) telling {
	ctx, end := context.WithCancel(parent)
	return telling{ctx, end, make(chan []byte, 1)}
}

// tell begins to tell the peer, if it knows what that is.
func (st *stream) tell() {
	f := st.p.cfg.Tell
	if f == nil || !st.as.Tells() {
		return
	}
	go f(st.ctx, func(b []byte) bool {
		if len(b) > wire.MaxTold {
			return true // no event is as long
		}
		select {
		case st.told <- b:
			st.ring()
			return true
		case <-st.ctx.Done():
			return false
		}
	})
}

// next is the next message to write, nil if none waits.
func (x *telling) next() any {
	select {
	case b := <-x.told:
		return &wire.Told{Data: b}
	default:
		return nil
	}
}
