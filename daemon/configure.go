package daemon

import (
	"heddle/congestion"
	"heddle/drain"
	"heddle/perf"
	"heddle/perf/findings"
	"heddle/sa"
	"heddle/sm"
)

// Settings are those of a running manager that can change, made as for its Config.
type Settings struct {
	Core sm.Config
	// Reroute has tables computed anew: settings of routing changed.
	Reroute    bool
	SA         sa.Options
	Registry   sa.Config
	Perf       perf.Config // Period 0: counters are not read
	Thresholds *findings.Thresholds
	Cabling    *CablingPlan // nil: the cables are compared with no plan
	// PartitionsFile is the file that partitions were read from; empty: none.
	PartitionsFile string
	Actions        drain.Config // what rules of findings may do
	// Congestion is the mode of congestion control; nil: it stays as operators set it.
	Congestion *congestion.Mode
}

// ConfigureCore changes settings of the subnet manager's core alone, but for those of routing.
func (d *Daemon) ConfigureCore(core sm.Config) { d.shared.ConfigureSM(core, false) }

// Configure changes settings of the running manager. It returns at once; the loops take them up in
// their next steps.
func (d *Daemon) Configure(s *Settings) {
	d.SetOptions(s.SA)
	registry := s.Registry
	registry.QoS, registry.PathCaching, registry.VirtHopLimit = s.SA.QoS != nil, s.SA.PathCaching, s.SA.VirtHopLimit
	if s.Core.NoReregister {
		registry.RejoinTime = 0 // no host is asked to join again
	}
	core := s.Core
	d.planner.core.Store(&core)
	d.shared.Configure(s.Core, s.Reroute, registry)
	if d.perf.packets != nil && s.Perf.Period > 0 {
		d.shared.ConfigurePerf(s.Perf)
	}
	d.SetThresholds(s.Thresholds)
	d.SetCabling(s.Cabling)
	d.SetActions(s.Actions)
	d.planner.partitions.Store(&s.PartitionsFile)
	if s.Congestion != nil {
		d.shared.SetCongestionMode(*s.Congestion)
	}
}
