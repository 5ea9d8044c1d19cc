package settings

import (
	"time"

	"heddle/perf/dftree"
)

var counterTable = []Setting{
	{
		Name: "perf", Group: Counters, Arg: "PERIOD", Since: v020, OpenSM: "perfmgr_sweep_time_s", Commands: []string{"sm", "up", "plan"}, Live: true, Switch: true,
		Meaning: "read the counters of every port once in this time; they are never cleared",
		value:   span{at: func(c *Config) *time.Duration { return &c.Perf.Period }, zero: "not at all", least: 10 * time.Millisecond},
	},
	{
		Name: "perf-hosts", Group: Counters, Since: v020, Commands: []string{"sm", "up"},
		Meaning: "read the ports of channel adapters and routers too, not only those of switches",
		value:   boolean{func(c *Config) *bool { return &c.Perf.Hosts }},
	},
	{
		Name: "perf-details", Group: Counters, Since: v020, Commands: []string{"sm", "up"}, Live: true,
		Meaning: "read the details of errors and waiting, where they have grown",
		value:   boolean{func(c *Config) *bool { return &c.Perf.Details }},
	},
	{
		Name: "perf-lanes", Group: Counters, Since: v020, Commands: []string{"sm", "up"}, Live: true,
		Meaning: "read data and packets by virtual lane too, every 30th period",
		value:   boolean{func(c *Config) *bool { return &c.Perf.Lanes }},
	},
	{
		Name: "perf-rate", Group: Counters, Arg: "N", Since: v020, Commands: []string{"sm", "up"}, Live: true,
		Meaning: "maximum number of requests per second; with more ports the period becomes longer",
		value:   number[int]{at: func(c *Config) *int { return &c.Perf.Rate }, min: 1, max: 1_000_000},
	},
	{
		Name: "perf-window", Group: Counters, Arg: "N", Since: v020, OpenSM: "perfmgr_max_outstanding_queries", Commands: []string{"sm", "up"},
		Meaning: "maximum number of requests in flight; with --cc-window at most half of what the port takes",
		value:   number[int]{at: func(c *Config) *int { return &c.Perf.Window }, min: 1, max: 4096},
	},
	{
		Name: "perf-history", Group: Counters, Arg: "N", Since: v020, Commands: []string{"sm", "up"},
		Meaning: "samples of each port that are kept in memory, 8 bytes each",
		value:   number[int]{at: func(c *Config) *int { return &c.Perf.History }, max: 1000},
	},
	{
		Name: "findings-thresholds", Group: Counters, Arg: "FILE", Since: v020, Commands: []string{"sm", "up"}, Live: true,
		Meaning: "file with thresholds of findings: lines of infiniband-diags' error_thresholds, and RULE=VALUE as in docs/findings.md; read again on SIGHUP",
		value:   text{func(c *Config) *string { return &c.Files.Thresholds }},
	},
	{
		Name: "dftree", Group: Counters, Arg: "HOW", Since: v020, Commands: []string{"sm", "up", "plan"},
		Meaning: "treatment of flows to hot spots, which --perf finds: observe shows the paths that would move to a slow lane; act keeps a lane free for them, and moves them while the hot spot lasts; off does neither",
		value: choice[dftree.Mode]{func(c *Config) *dftree.Mode { return &c.DFTree }, []word[dftree.Mode]{
			{"off", dftree.Off}, {"observe", dftree.Observe}, {"act", dftree.Act},
		}},
	},
}
