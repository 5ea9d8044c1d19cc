package settings

import (
	"strings"
	"time"

	"heddle/drain"
	"heddle/fabric/cabling"
)

// Cabling is the plan with which the cables are compared for as long as the manager runs.
type Cabling struct {
	File    string // empty: there is none
	Partial bool
	Ignore  []string // names of kinds
}

var healthTable = []Setting{
	{
		Name: "findings-act", Group: Counters, Arg: "HOW", Since: v020, Commands: []string{"sm", "up"}, Live: true,
		Meaning: "treatment of links between switches with findings whose rule has an action, such as bad_cable: dry-run shows the action; act drains or isolates them; off does neither",
		value: choice[drain.Mode]{func(c *Config) *drain.Mode { return &c.Actions.Mode }, []word[drain.Mode]{
			{"dry-run", drain.Say}, {"act", drain.Act}, {"off", drain.Off},
		}},
	},
	{
		Name: "findings-act-clean", Group: Counters, Arg: "TIME", Since: v020, Commands: []string{"sm", "up"}, Live: true,
		Meaning: "time without a finding after which routes use a link again that a rule drained; a link that a rule isolated is tried again after this time",
		value:   span{at: func(c *Config) *time.Duration { return &c.Actions.Clean }, least: time.Minute},
	},
	{
		Name: "findings-act-expiry", Group: Counters, Arg: "TIME", Since: v020, Commands: []string{"sm", "up"}, Live: true,
		Meaning: "time after which the action of a rule ends if the counters of the link are not read any more; for an isolated link in any case",
		value:   span{at: func(c *Config) *time.Duration { return &c.Actions.Expiry }, least: time.Minute},
	},
	{
		Name: "cabling", Group: Running, Arg: "PLAN", Since: v020, Commands: []string{"sm", "up"}, Live: true,
		Meaning: "file with the planned cables, in the formats of 'heddle ctl cabling check'; after each sweep that changed the subnet each difference is a finding; read again on SIGHUP",
		value:   text{func(c *Config) *string { return &c.Cabling.File }},
	},
	{
		Name: "cabling-partial", Group: Running, Since: v020, Commands: []string{"sm", "up"}, Live: true,
		Meaning: "the plan of --cabling does not have all nodes: cables of nodes that it does not name are no findings",
		value:   boolean{func(c *Config) *bool { return &c.Cabling.Partial }},
	},
	{
		Name: "cabling-ignore", Group: Running, Arg: "KINDS", Since: v020, Commands: []string{"sm", "up"}, Live: true,
		Meaning: "kinds of differences that are no findings: " + strings.Join(kinds(), ", "),
		value:   list{at: func(c *Config) *[]string { return &c.Cabling.Ignore }, known: kinds(), only: true},
	},
}

// kinds are the names of differences.
func kinds() (names []string) {
	for k := range cabling.NumKinds {
		names = append(names, k.String())
	}
	return names
}

// Ignored are the kinds of --cabling-ignore.
func (c *Cabling) Ignored() (out [cabling.NumKinds]bool) {
	for _, name := range c.Ignore {
		if k, ok := cabling.ParseKind(name); ok { // others are refused when they are set
			out[k] = true
		}
	}
	return out
}
