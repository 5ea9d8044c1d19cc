package settings

import (
	"time"

	"heddle/congestion"
)

var congestionTable = []Setting{
	{
		Name: "congestion-control", Group: Congestion, Arg: "MODE", Since: v020, OpenSM: "congestion_control", Commands: []string{"sm", "up"}, Live: true,
		Meaning: "congestion control by switches and adapters: observe reads their settings and shows differences from the settings below, act writes these, withdraw turns it off at all nodes; off sends nothing, and nodes keep their settings",
		value: choice[congestion.Mode]{at: func(c *Config) *congestion.Mode { return &c.Congestion.Mode }, all: []word[congestion.Mode]{
			{"off", congestion.Off}, {"observe", congestion.Observe}, {"act", congestion.Act}, {"withdraw", congestion.Withdraw},
		}},
	},
	{
		Name: "cc-senders", Group: Congestion, Arg: "N", Since: v020, Commands: []string{"sm", "up"},
		Meaning: "how many hosts may send to one at a time: values that are auto are computed for that",
		value:   number[int]{at: func(c *Config) *int { return &c.Congestion.Policy.Senders }, max: 49151, zero: "all hosts of the subnet, rounded up to a power of 2"},
	},
	{
		Name: "cc-threshold", Group: Congestion, Arg: "N", Since: v020, OpenSM: "cc_sw_cong_setting_threshold", Commands: []string{"sm", "up"},
		Meaning: "when switches begin to mark: 0 never, 1 at long queues, 15 at the shortest; auto is 4",
		value:   given[uint8]{at: func(c *Config) *congestion.Given[uint8] { return &c.Congestion.Policy.Threshold }, max: 15},
	},
	{
		Name: "cc-host-threshold", Group: Congestion, Arg: "N", Since: v020, Commands: []string{"sm", "up"},
		Meaning: "the same for ports to hosts, as a setting of each port; auto: that of the switch",
		value:   given[uint8]{at: func(c *Config) *congestion.Given[uint8] { return &c.Congestion.Policy.HostThreshold }, max: 15},
	},
	{
		Name: "cc-packet-size", Group: Congestion, Arg: "N", Since: v020, OpenSM: "cc_sw_cong_setting_packet_size", Commands: []string{"sm", "up"},
		Meaning: "shorter packets are not marked, in units of 64 bytes; auto is 8",
		value:   given[uint8]{at: func(c *Config) *congestion.Given[uint8] { return &c.Congestion.Policy.PacketSize }, max: 255},
	},
	{
		Name: "cc-marking-rate", Group: Congestion, Arg: "N", Since: v020, OpenSM: "cc_sw_cong_setting_marking_rate", Commands: []string{"sm", "up"},
		Meaning: "average number of unmarked packets between two marked ones, of the packets that could be marked",
		value:   number[uint16]{at: func(c *Config) *uint16 { return &c.Congestion.Policy.MarkingRate }, max: 65535, zero: "all are marked"},
	},
	{
		Name: "cc-victim-mask", Group: Congestion, Arg: "MASK", Since: v020, OpenSM: "cc_sw_cong_setting_victim_mask", Commands: []string{"sm", "up"},
		Meaning: "ports of switches that mark also while they wait for credits, bit n for port n; auto: of each switch the ports to hosts",
		value: special{
			parse: func(c *Config, s string) error {
				p := &c.Congestion.Policy
				if s == byItself {
					p.VictimMask.Is, p.VictimMask.Value = false, [32]byte{}
					return nil
				}
				m, err := portMask(s)
				if err == nil {
					p.VictimMask = congestion.Give(m)
				}
				return err
			},
			show: func(c *Config) string {
				if p := &c.Congestion.Policy; p.VictimMask.Is {
					return portMaskText(p.VictimMask.Value)
				}
				return byItself
			},
			want: "a number of at most 256 bits that begins with 0x, or auto",
		},
	},
	{
		Name: "cc-credit-mask", Group: Congestion, Arg: "MASK", Since: v020, OpenSM: "cc_sw_cong_setting_credit_mask", Commands: []string{"sm", "up"},
		Meaning: "ports of switches that detect starvation of credits, bit n for port n",
		value: special{
			parse: func(c *Config, s string) error {
				m, err := portMask(s)
				if err == nil {
					c.Congestion.Policy.CreditMask = m
				}
				return err
			},
			show: func(c *Config) string { return portMaskText(c.Congestion.Policy.CreditMask) },
			want: "a number of at most 256 bits that begins with 0x",
		},
	},
	{
		Name: "cc-starvation-threshold", Group: Congestion, Arg: "N", Since: v020, OpenSM: "cc_sw_cong_setting_credit_starvation_threshold", Commands: []string{"sm", "up"},
		Meaning: "when a port counts as starved of credits: 0 never, 15 soonest",
		value:   number[uint8]{at: func(c *Config) *uint8 { return &c.Congestion.Policy.CSThreshold }, max: 15},
	},
	{
		Name: "cc-starvation-delay", Group: Congestion, Arg: "SHIFT:MULTIPLIER", Since: v020, OpenSM: "cc_sw_cong_setting_credit_starvation_return_delay", Commands: []string{"sm", "up"},
		Meaning: "how long a starved port holds credits back",
		value: special{
			parse: func(c *Config, s string) error {
				d, err := delay(s)
				if err == nil {
					c.Congestion.Policy.CSReturnDelay = d
				}
				return err
			},
			show: func(c *Config) string { return delayText(c.Congestion.Policy.CSReturnDelay) },
			want: "SHIFT:MULTIPLIER",
		},
	},
	{
		Name: "cc-switch-map", Group: Congestion, Arg: "MASK", Since: v020, OpenSM: "cc_sw_cong_setting_control_map", Commands: []string{"sm", "up"},
		Meaning: "settings of switches that are written: bit 0 victim mask, 1 credit mask, 2 threshold and packet size, 3 starvation, 4 marking rate; auto: those that are given or computed",
		value:   given[uint32]{at: func(c *Config) *congestion.Given[uint32] { return &c.Congestion.Policy.ControlMap }, max: 1<<32 - 1},
	},
	{
		Name: "cc-timer", Group: Congestion, Arg: "N", Since: v020, OpenSM: "cc_ca_cong_setting_ccti_timer", Commands: []string{"sm", "up"},
		Meaning: "time after which the index of a sender decreases by one, in units of 1.024 µs; auto: two packets at the fair share of --cc-senders",
		value: levels{
			get: func(c *Config, sl int) (uint16, bool) {
				return c.Congestion.Policy.Timer[sl].Value, c.Congestion.Policy.Timer[sl].Is
			},
			put: func(c *Config, sl int, v uint16, is bool) {
				c.Congestion.Policy.Timer[sl] = congestion.Given[uint16]{Is: is, Value: v}
			},
			max: 65535, auto: true,
		},
	},
	{
		Name: "cc-increase", Group: Congestion, Arg: "N", Since: v020, OpenSM: "cc_ca_cong_setting_ccti_increase", Commands: []string{"sm", "up"},
		Meaning: "increase of the index of a sender by a notification",
		value: levels{
			get: func(c *Config, sl int) (uint16, bool) { return uint16(c.Congestion.Policy.Increase[sl]), true },
			put: func(c *Config, sl int, v uint16, _ bool) { c.Congestion.Policy.Increase[sl] = uint8(v) }, max: 255,
		},
	},
	{
		Name: "cc-trigger", Group: Congestion, Arg: "N", Since: v020, OpenSM: "cc_ca_cong_setting_trigger_threshold", Commands: []string{"sm", "up"},
		Meaning: "index at which an adapter logs a sender; auto: that at which the sender is slowed to half",
		value: levels{
			get: func(c *Config, sl int) (uint16, bool) {
				return uint16(c.Congestion.Policy.Trigger[sl].Value), c.Congestion.Policy.Trigger[sl].Is
			},
			put: func(c *Config, sl int, v uint16, is bool) {
				c.Congestion.Policy.Trigger[sl] = congestion.Given[uint8]{Is: is, Value: uint8(v)}
			},
			max: 255, auto: true,
		},
	},
	{
		Name: "cc-min", Group: Congestion, Arg: "N", Since: v020, OpenSM: "cc_ca_cong_setting_ccti_min", Commands: []string{"sm", "up"},
		Meaning: "minimum of the index; above 0 senders are always slowed",
		value: levels{
			get: func(c *Config, sl int) (uint16, bool) { return uint16(c.Congestion.Policy.Min[sl]), true },
			put: func(c *Config, sl int, v uint16, _ bool) { c.Congestion.Policy.Min[sl] = uint8(v) }, max: 255,
		},
	},
	{
		Name: "cc-control", Group: Congestion, Arg: "WHAT", Since: v020, OpenSM: "cc_ca_cong_setting_port_control", Commands: []string{"sm", "up"},
		Meaning: "unit that is slowed: each queue pair (qp), or all of a port and service level together (sl)",
		value:   choice[uint16]{at: func(c *Config) *uint16 { return &c.Congestion.Policy.PortControl }, all: []word[uint16]{{"qp", 0}, {"sl", 1}}},
	},
	{
		Name: "cc-sl-map", Group: Congestion, Arg: "MASK", Since: v020, OpenSM: "cc_ca_cong_setting_control_map", Commands: []string{"sm", "up"},
		Meaning: "service levels that are set at adapters, bit n for SL n",
		value:   number[uint16]{at: func(c *Config) *uint16 { return &c.Congestion.Policy.SLMap }, max: 65535},
	},
	{
		Name: "cc-table", Group: Congestion, Arg: "SHIFT:MULTIPLIER,...", Since: v020, OpenSM: "cc_cct", Commands: []string{"sm", "up"},
		Meaning: "pauses by index: a packet that takes t is followed by a pause of (t >> SHIFT) × MULTIPLIER; none: no pauses; auto: up to half of the fair share of --cc-senders",
		value:   special{parse: setTable, show: tableText, want: "SHIFT:MULTIPLIER, separated by commas, none or auto"},
	},
	{
		Name: "cc-key", Group: Congestion, Arg: "KEY", Since: v020, OpenSM: "cc_key", Commands: []string{"sm", "up"}, Secret: true,
		Meaning: "CC_Key that requests carry",
		value:   key[uint64]{func(c *Config) *uint64 { return &c.Congestion.Key.Key }},
	},
	{
		Name: "cc-key-file", Group: Congestion, Arg: "FILE", Since: v020, Commands: []string{"sm", "up"},
		Meaning: "file with the CC_Key, in place of --cc-key; default: the credential cc-key of the service, if it has one",
		value:   text{func(c *Config) *string { return &c.Secrets.CCKey }},
	},
	{
		Name: "cc-write-key", Group: Congestion, Since: v020, Commands: []string{"sm", "up"},
		Meaning: "write the CC_Key to nodes, so that they refuse settings of other managers; withdraw removes it",
		value:   boolean{func(c *Config) *bool { return &c.Congestion.Key.Write }},
	},
	{
		Name: "cc-protect-key", Group: Congestion, Since: v020, Commands: []string{"sm", "up"},
		Meaning: "make nodes hide the CC_Key from requests with another one",
		value:   boolean{func(c *Config) *bool { return &c.Congestion.Key.Protect }},
	},
	{
		Name: "cc-key-lease", Group: Congestion, Arg: "N", Unit: "s", Since: v020, Commands: []string{"sm", "up"},
		Meaning: "time without this manager after which nodes show the CC_Key to requests with another one",
		value:   number[uint16]{at: func(c *Config) *uint16 { return &c.Congestion.Key.Lease }, max: 65535, zero: "never"},
	},
	{
		Name: "cc-interval", Group: Congestion, Arg: "TIME", Since: v020, Commands: []string{"sm", "up"},
		Meaning: "maximum time between two readings of the settings of a node",
		value:   span{at: func(c *Config) *time.Duration { return &c.Congestion.Interval }},
	},
	{
		Name: "cc-log", Group: Congestion, Arg: "TIME", Since: v020, Commands: []string{"sm", "up"},
		Meaning: "time between two readings of the congestion log of a switch",
		value:   span{at: func(c *Config) *time.Duration { return &c.Congestion.Logs }, zero: "not at all"},
	},
	{
		Name: "cc-window", Group: Congestion, Arg: "N", Since: v020, OpenSM: "cc_max_outstanding_mads", Commands: []string{"sm", "up"},
		Meaning: "maximum number of requests in flight; with --perf-window at most half of what the port takes",
		value:   number[int]{at: func(c *Config) *int { return &c.Congestion.Window }, min: 1, max: 4096},
	},
	{
		Name: "cc-rate", Group: Congestion, Arg: "N", Since: v020, Commands: []string{"sm", "up"},
		Meaning: "maximum number of requests per second",
		value:   number[int]{at: func(c *Config) *int { return &c.Congestion.Rate }, min: 1, max: 1_000_000},
	},
}
