package study

import (
	"context"

	"heddle/traffic"
	"heddle/traffic/maxmin"
)

// PacketOptions configure packets.
type PacketOptions struct{}

// PacketPoint is what only packets can tell.
type PacketPoint struct{}

type packetOutcome struct{}

func (q *Question) checkPackets() error {
	return wrong("flow", "packets are not supported yet; ask for max-min fair shares")
}

func (q *Question) packetModel() []string { return nil }

func (q *Question) runPackets(context.Context, *state, *maxmin.Net, []*traffic.Demand, float64, uint64) (*outcome, error) {
	return nil, nil
}

func packetSummary([]*outcome) *PacketPoint { return nil }

// DefaultPackets are the usual options.
func DefaultPackets() PacketOptions { return PacketOptions{} }
