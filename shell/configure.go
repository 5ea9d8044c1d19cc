package shell

import (
	"heddle/perf"
	"heddle/sa"
	"heddle/sm"
)

// Configure passes other settings to the subnet manager and the SA, which take what of them a running
// manager can change. reroute says that those of routing are among them.
func (s *Shared) Configure(manager sm.Config, reroute bool, registry sa.Config) {
	s.ConfigureSM(manager, reroute)
	s.rules.put(sa.Configure{Config: registry})
	wake(s.WakeSA)
}

// ConfigureSM is Configure for the subnet manager alone.
func (s *Shared) ConfigureSM(manager sm.Config, reroute bool) {
	s.settings.update(func(waiting sm.Configure) sm.Configure {
		return sm.Configure{Config: manager, Reroute: reroute || waiting.Reroute}
	})
	wake(s.WakeSM)
}

// ConfigurePerf passes other settings to the performance manager.
func (s *Shared) ConfigurePerf(c perf.Config) {
	if s.WakePerf == nil {
		return
	}
	s.rates.put(perf.Configure{Config: c})
	s.WakePerf()
}
