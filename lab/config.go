package lab

import (
	"slices"
	"time"

	"heddle/sm"
)

// ProductionConfig is what `heddle sm` gives a manager in a simulation when no
// flag is set, but for the chain.
func ProductionConfig(c RepairChain) sm.Config {
	cfg := sm.Defaults()
	cfg.Engines, cfg.Explicit = slices.Clone(c.Engines), len(c.Engines) == 1
	return cfg
}

// TrialConfig has short intervals, so that a trial takes little virtual time.
func TrialConfig() sm.Config {
	cfg := DefaultConfig()
	cfg.SMPTimeout = 20 * time.Millisecond
	cfg.SweepInterval = time.Second
	cfg.RetryInterval = 500 * time.Millisecond
	cfg.TrapMinGap = 200 * time.Millisecond
	cfg.PacketLife, cfg.HOQLife, cfg.LeafHOQLife = 10, 10, 10 // 4 ms: short drains
	cfg.RepathTime = 50 * time.Millisecond
	cfg.ImproveDelay = time.Second
	cfg.DampDelay, cfg.DampQuiet = 200*time.Millisecond, 5*time.Second
	return cfg
}
