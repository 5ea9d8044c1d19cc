package daemon

import (
	"time"

	"heddle/api"
	"heddle/api/metrics"
	"heddle/api/show"
	"heddle/sa"
)

// signalState is what the SA's loop tells of Reports about changed paths.
type signalState struct {
	stats sa.SignalStats
	peers []sa.SignalPeer // only if they were asked for
}

// signalAsk is a question to the SA's loop.
type signalAsk struct {
	peers bool
	reply chan signalState
}

// signals asks the SA's loop; ok is false if it does not answer in time.
func (d *Daemon) signals(peers bool) (x signalState, ok bool) {
	q := signalAsk{peers, make(chan signalState, 1)}
	t := time.NewTimer(askTime)
	defer t.Stop()
	select {
	case d.signalAsks <- q:
		return <-q.reply, true
	case <-t.C:
		return x, false
	}
}

// answerSignals answers a question, in the SA's loop.
func (l *saLoop) answerSignals(q signalAsk) {
	x := signalState{stats: l.core.Signals()}
	if q.peers {
		x.peers = l.core.SignalPeers(l.d.now())
	}
	q.reply <- x
}

// Signals implements api.Backend.
func (d *Daemon) Signals() (api.Signals, bool) {
	x, ok := d.signals(true)
	if !ok {
		return api.Signals{}, false
	}
	return show.Signals(&x.stats, x.peers, d.Snapshot()), true
}

// signalValues are the counters of Reports about paths.
func (d *Daemon) signalValues() metrics.Signals {
	x, ok := d.signals(false)
	s := &x.stats
	return metrics.Signals{
		Known: ok, Mode: s.Mode.String(), Subscribers: s.Subscribers, Due: s.Due, Levels: s.Levels, Settled: s.Settled,
		Changes: s.Changes, All: s.All, Paths: s.Paths, Failed: s.Failed, Spared: s.Spared,
	}
}
