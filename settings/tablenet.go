package settings

import (
	"strings"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/sm"
)

var routingTable = []Setting{
	{
		Name: "engine", Group: Routing, Arg: "ENGINE[,ENGINE...]", Since: first, Commands: routers, OpenSM: "routing_engine", Live: true,
		Meaning: "routing engines, tried in order: " + strings.Join(EngineNames(), ", ") + "; auto is " + strings.Join(AutoChain(), ",") +
			". The first with proved tables is used",
		value: list{at: func(c *Config) *[]string { return &c.Engines.Names }, known: append([]string{"auto"}, EngineNames()...)},
	},
	{
		Name: "allow-unsafe", Group: Routing, Since: first, Live: true,
		Meaning: "install the tables of an engine named alone even if they do not verify (may deadlock)",
		value:   boolean{func(c *Config) *bool { return &c.SM.AllowUnsafe }},
	},
	{
		Name: "roots", Group: Routing, Arg: "FILE", Since: first, Commands: routers, OpenSM: "root_guid_file", Live: true,
		Meaning: "file with node GUIDs, one a line: the roots of updn and dnup, the top switches of ftree and vftree; default: detected",
		value:   text{func(c *Config) *string { return &c.Engines.Roots }},
	},
	{
		Name: "connect-roots", Group: Routing, Since: first, Commands: routers, OpenSM: "connect_roots", Live: true,
		Meaning: "updn, dnup: let the roots reach each other (always the case; accepted for compatibility with OpenSM)",
		value:   boolean{func(c *Config) *bool { return &c.SM.Route.ConnectRoots }},
	},
	{
		Name: "ids", Group: Routing, Arg: "FILE", Since: first, Commands: routers, OpenSM: "ids_guid_file", Live: true,
		Meaning: "updn, dnup: file with a node GUID and a number a line; of switches of one rank the one with the smaller number is upper",
		value:   text{func(c *Config) *string { return &c.Engines.IDs }},
	},
	{
		Name: "hop-weights", Group: Routing, Arg: "FILE", Since: first, Commands: routers, OpenSM: "hop_weights_file", Live: true,
		Meaning: "minhop, updn, dnup, sssp, dfsssp: file with a switch GUID, port and weight (1-255) a line; a hop costs 1 otherwise",
		value:   text{func(c *Config) *string { return &c.Engines.HopWeights }},
	},
	{
		Name: "avoid-throttled-links", Group: Routing, Since: v020, OpenSM: "avoid_throttled_links", Live: true,
		Meaning: "no routes over a link between switches that is narrower or slower than both of its ends support, unless it is the last one to a part of the subnet or more than half of a switch's links are so: there a hop over it costs 100 (minhop, updn, dnup, sssp, dfsssp; hop-weights count more)",
		value:   boolean{func(c *Config) *bool { return &c.SM.AvoidThrottled }},
	},
	{
		Name: "port-order", Group: Routing, Arg: "FILE", Since: first, Commands: routers, OpenSM: "port_search_ordering_file", Live: true,
		Meaning: "dor, minhop, updn, dnup: file with a switch GUID and its ports in the order to try them, a line each",
		value:   text{func(c *Config) *string { return &c.Engines.PortOrder }},
	},
	{
		Name: "routing-order", Group: Routing, Arg: "FILE", Since: first, Commands: routers, OpenSM: "guid_routing_order_file", Live: true,
		Meaning: "file with port GUIDs, one a line, that are routed first, in this order",
		value:   text{func(c *Config) *string { return &c.Engines.RoutingOrder }},
	},
	{
		Name: "unbalanced", Group: Routing, Arg: "FILE", Since: first, Commands: routers, OpenSM: "port_prof_ignore_file", Live: true,
		Meaning: "file with port GUIDs, one a line, that are ignored when load is balanced",
		value:   text{func(c *Config) *string { return &c.Engines.Unbalanced }},
	},
	{
		Name: "compute-nodes", Group: Routing, Arg: "FILE", Since: first, Commands: routers, OpenSM: "cn_guid_file", Live: true,
		Meaning: "ftree, vftree: file with the port GUIDs to balance first, one a line; default: all CAs",
		value:   text{func(c *Config) *string { return &c.Engines.ComputeNodes }},
	},
	{
		Name: "io-nodes", Group: Routing, Arg: "FILE", Since: first, Commands: routers, OpenSM: "io_guid_file", Live: true,
		Meaning: "ftree, vftree: file with the port GUIDs of I/O nodes, one a line",
		value:   text{func(c *Config) *string { return &c.Engines.IONodes }},
	},
	{
		Name: "max-reverse-hops", Group: Routing, Arg: "HOPS", Since: first, Commands: routers, OpenSM: "max_reverse_hops", Live: true,
		Meaning: "ftree, vftree: hops in the wrong direction that a path between I/O nodes may take",
		value:   number[int]{at: func(c *Config) *int { return &c.SM.Route.MaxReverseHops }, max: 255},
	},
	{
		Name: "vftree-lanes", Group: Routing, Arg: "LANES", Since: first, Commands: routers, Live: true,
		Meaning: "vftree: lanes to spread pairs of leaf switches over",
		value:   number[int]{at: func(c *Config) *int { return &c.Engines.VFTreeLanes }, max: 15, zero: "as many as help"},
	},
	{
		Name: "torus-config", Group: Routing, Arg: "FILE", Since: first, Commands: routers, OpenSM: "torus_config", Live: true,
		Meaning: "torus: file as torus-2QoS.conf with sizes, seeds and date lines; default: detected",
		value:   text{func(c *Config) *string { return &c.Engines.TorusConfig }},
	},
	{
		Name: "fdbs", Group: Routing, Arg: "FILE", Since: first, Commands: routers, OpenSM: "lfts_file", Live: true,
		Meaning: "file: tables as opensm.fdbs or opensm-lfts.dump",
		value:   text{func(c *Config) *string { return &c.Engines.ForwardingTables }},
	},
	{
		Name: "path-sl", Group: Routing, Arg: "FILE", Since: first, Commands: routers, Live: true,
		Meaning: "file: service levels as opensm-path-sl.dump",
		value:   text{func(c *Config) *string { return &c.Engines.PathSL }},
	},
	{
		Name: "sl2vl", Group: Routing, Arg: "FILE", Since: first, Commands: routers, Live: true,
		Meaning: "file: SL-to-VL tables as opensm-sl2vl.dump",
		value:   text{func(c *Config) *string { return &c.Engines.SLToVLTable }},
	},
	{
		Name: "spread-lanes", Group: Routing, Since: first, Commands: routers, Live: true,
		Meaning: "dfsssp, lash: also use lanes that deadlock freedom does not need",
		value:   boolean{func(c *Config) *bool { return &c.SM.Route.SpreadLanes }},
	},
	{
		Name: "route-vls", Group: Routing, Arg: "MOST", Since: v020, OpenSM: "nue_max_num_vls", Live: true,
		Meaning: "maximum number of data lanes that an engine may use (as --vls of 'heddle route')",
		value:   number[int]{at: func(c *Config) *int { return &c.SM.MaxVLs }, max: 15, zero: "as many as every link between switches has"},
	},
	{
		Name: "route-seed", Group: Routing, Arg: "N", Since: v020, Live: true,
		Meaning: "seed of engines that use random numbers (as --seed of 'heddle route')",
		value:   key[uint64]{func(c *Config) *uint64 { return &c.SM.RouteSeed }},
	},
	{
		Name: "transition", Group: Tables, Arg: "HOW", Since: first, Live: true,
		Meaning: "how tables change: availability, strict, discard, static, or static2003 (takes all links down: experiments only)",
		value: choice[sm.Transition]{func(c *Config) *sm.Transition { return &c.SM.Transition }, []word[sm.Transition]{
			{"availability", sm.TransitionAvailability},
			{"strict", sm.TransitionStrict},
			{"discard", sm.TransitionDiscard},
			{"static", sm.TransitionStatic},
			{"static2003", sm.TransitionStatic2003},
		}},
	},
	{
		Name: "drain-time", Group: Tables, Arg: "TIME", Since: v020, Live: true,
		Meaning: "time for packets to leave between the removal and the rewrite of an entry",
		value:   span{at: func(c *Config) *time.Duration { return &c.SM.DrainTime }, zero: "computed from the lifetimes"},
	},
	{
		Name: "repath-time", Group: Tables, Arg: "TIME", Since: first, Live: true,
		Meaning: "time limit for hosts to use a new service level if a change of tables needs it",
		value:   span{at: func(c *Config) *time.Duration { return &c.SM.RepathTime }, zero: "no limit, so such a change is refused"},
	},
	{
		Name: "improve-delay", Group: Tables, Arg: "TIME", Since: v020, Live: true,
		Meaning: "quiet time after which an earlier engine is retried, if the tables of a later one were kept over a fault",
		value:   span{at: func(c *Config) *time.Duration { return &c.SM.ImproveDelay }, zero: "only at full sweeps"},
	},
}

// daemons are the commands that manage a subnet; routers are all that run engines.
var (
	daemons = []string{"sm", "up", "plan"}
	routers = []string{"sm", "up", "plan", "route"}
)

var linkTable = []Setting{
	{
		Name: "max-mtu", Group: Links, Arg: "BYTES", Unit: "bytes", Since: first, Live: true,
		Meaning: "largest MTU to set on links",
		value: choice[ib.MTU]{func(c *Config) *ib.MTU { return &c.SM.MaxMTU }, []word[ib.MTU]{
			{"256", ib.MTU256}, {"512", ib.MTU512}, {"1024", ib.MTU1024}, {"2048", ib.MTU2048}, {"4096", ib.MTU4096},
		}},
	},
	{
		Name: "max-vls", Group: Links, Arg: "MOST", Since: first, OpenSM: "max_op_vls",
		Meaning: "maximum number of data lanes to make operational on a link",
		value:   choice[uint8]{func(c *Config) *uint8 { return &c.SM.MaxOpVLs }, []word[uint8]{{"1", 1}, {"2", 2}, {"4", 3}, {"8", 4}, {"15", 5}}},
	},
	{
		Name: "qos", Group: Links, Since: v020, OpenSM: "qos", Live: true,
		Meaning: "set SL-to-VL tables (identity modulo the lanes of the link) and VL arbitration (equal lanes) on every link; otherwise only if the tables need several lanes",
		value:   boolean{func(c *Config) *bool { return &c.SM.QoS }},
	},
	{
		Name: "qos-sl2vl", Group: Links, Arg: "LANES", Since: v020, OpenSM: "qos_sl2vl", Live: true,
		Meaning: "with qos, lanes of the service levels, by class of port; 15 discards. Does not apply while forwarding tables need several lanes",
		value:   levelLanes,
	},
	{
		Name: "qos-vlarb-high", Group: Links, Arg: "TABLE", Since: v020, OpenSM: "qos_vlarb_high", Live: true,
		Meaning: "with qos, VL arbitration of high priority, by class of port; weights count 64 bytes",
		value:   arbitration(func(l *sm.Lanes) *[]smp.VLArbEntry { return &l.High }),
	},
	{
		Name: "qos-vlarb-low", Group: Links, Arg: "TABLE", Since: v020, OpenSM: "qos_vlarb_low", Live: true,
		Meaning: "with qos, VL arbitration of low priority, by class of port; weights count 64 bytes",
		value:   arbitration(func(l *sm.Lanes) *[]smp.VLArbEntry { return &l.Low }),
	},
	{
		Name: "qos-high-limit", Group: Links, Arg: "N", Unit: "4 KiB", Since: v020, OpenSM: "qos_high_limit", Live: true,
		Meaning: "with qos, the amount of data of the high table that may precede a packet of the low one, by class of port; 0 is one packet, 255 no limit",
		value:   highLimit,
	},
	{
		Name: "read-lanes", Group: Links, Arg: "SWITCHES", Since: v020, Live: true,
		Meaning: "read the lane tables of all nodes once the subnet is up, if it has at most this many switches",
		value:   number[int]{at: func(c *Config) *int { return &c.SM.ReadLanes }, max: 49151, zero: "only on demand"},
	},
	{
		Name: "link-width", Group: Links, Arg: "WIDTHS", Since: v020, OpenSM: "force_link_width", Live: true,
		Meaning: "link widths to enable on ports that support them; effective when the link is trained again",
		value: mask[ib.LinkWidth]{func(c *Config) *ib.LinkWidth { return &c.SM.LinkWidth }, []word[ib.LinkWidth]{
			{"1x", ib.Width1x}, {"2x", ib.Width2x}, {"4x", ib.Width4x}, {"8x", ib.Width8x}, {"12x", ib.Width12x},
		}, ib.WidthAll, nil},
	},
	{
		Name: "link-speed", Group: Links, Arg: "SPEEDS", Since: v020, OpenSM: "force_link_speed", Live: true,
		Meaning: "link speeds up to QDR to enable on ports that support them; effective when the link is trained again",
		value: mask[ib.SpeedBits]{func(c *Config) *ib.SpeedBits { return &c.SM.LinkSpeed }, []word[ib.SpeedBits]{
			{"sdr", ib.SpeedBitSDR}, {"ddr", ib.SpeedBitDDR}, {"qdr", ib.SpeedBitQDR},
		}, ib.SpeedBitAll, nil},
	},
	{
		Name: "link-speed-ext", Group: Links, Arg: "SPEEDS", Since: v020, OpenSM: "force_link_speed_ext", Live: true,
		Meaning: "extended link speeds to enable where both ports support them, off for none; effective when the link is trained again",
		value: mask[ib.SpeedExtBits]{func(c *Config) *ib.SpeedExtBits { return &c.SM.LinkSpeedExt }, []word[ib.SpeedExtBits]{
			{"fdr", ib.SpeedExtBitFDR}, {"edr", ib.SpeedExtBitEDR}, {"hdr", ib.SpeedExtBitHDR}, {"ndr", ib.SpeedExtBitNDR},
		}, ib.SpeedExtBitAll, []word[ib.SpeedExtBits]{{"off", ib.SpeedExtBitNone}}},
	},
	{
		Name: "packet-life", Group: Lifetime, Arg: "N", Unit: lifeUnit, Since: v020, OpenSM: "packet_life_time", Live: true,
		Meaning: "packet lifetime in a switch; above 19 unlimited",
		value:   life(func(c *Config) *uint8 { return &c.SM.PacketLife }),
	},
	{
		Name: "hoq-life", Group: Lifetime, Arg: "N", Unit: lifeUnit, Since: v020, OpenSM: "head_of_queue_lifetime", Live: true,
		Meaning: "head-of-queue lifetime at a switch port to another switch; above 19 unlimited",
		value:   life(func(c *Config) *uint8 { return &c.SM.HOQLife }),
	},
	{
		Name: "leaf-hoq-life", Group: Lifetime, Arg: "N", Unit: lifeUnit, Since: v020, OpenSM: "leaf_head_of_queue_lifetime", Live: true,
		Meaning: "head-of-queue lifetime at a switch port to a CA or router; above 19 unlimited",
		value:   life(func(c *Config) *uint8 { return &c.SM.LeafHOQLife }),
	},
	{
		Name: "subnet-timeout", Group: Lifetime, Arg: "N", Unit: lifeUnit, Since: v020, OpenSM: "subnet_timeout", Live: true,
		Meaning: "SubnetTimeOut of every port, which hosts use to wait for responses and to repeat traps",
		value:   life(func(c *Config) *uint8 { return &c.SM.SubnetTimeOut }),
	},
	{
		Name: "vl-stall-count", Group: Lifetime, Arg: "N", Since: v020, OpenSM: "vl_stall_count", Live: true,
		Meaning: "consecutive packets that exceed the head-of-queue lifetime before the lane is stalled, at switch ports to switches",
		value:   number[uint8]{at: func(c *Config) *uint8 { return &c.SM.VLStallCount }, max: 7},
	},
	{
		Name: "leaf-vl-stall-count", Group: Lifetime, Arg: "N", Since: v020, OpenSM: "leaf_vl_stall_count", Live: true,
		Meaning: "the same at switch ports to CAs and routers",
		value:   number[uint8]{at: func(c *Config) *uint8 { return &c.SM.LeafVLStallCount }, max: 7},
	},
	{
		Name: "local-phy-errors", Group: Lifetime, Arg: "N", Since: v020, OpenSM: "local_phy_errors_threshold", Live: true,
		Meaning: "threshold of local physical errors at which a port sends trap 129",
		value:   number[uint8]{at: func(c *Config) *uint8 { return &c.SM.LocalPhyErr }, max: 15},
	},
	{
		Name: "overrun-errors", Group: Lifetime, Arg: "N", Since: v020, OpenSM: "overrun_errors_threshold", Live: true,
		Meaning: "threshold of buffer overruns at which a port sends trap 130",
		value:   number[uint8]{at: func(c *Config) *uint8 { return &c.SM.OverrunErr }, max: 15},
	},
}

const lifeUnit = "for 4.096 µs × 2^N"

// life is a time as a code of 5 bits.
func life(at func(*Config) *uint8) value { return number[uint8]{at: at, max: 31} }

var timeTable = []Setting{
	{
		Name: "smp-timeout", Group: Sweeps, Arg: "TIME", Since: first, OpenSM: "transaction_timeout", Live: true,
		Meaning: "time-out of the first try of an SMP",
		value:   span{at: func(c *Config) *time.Duration { return &c.SM.SMPTimeout }},
	},
	{
		Name: "smp-retries", Group: Sweeps, Arg: "TRIES", Since: first, OpenSM: "transaction_retries", Live: true,
		Meaning: "retries of an SMP",
		value:   number[int]{at: func(c *Config) *int { return &c.SM.SMPRetries }, max: 1000, zero: "none"},
	},
	{
		Name: "window", Group: Sweeps, Arg: "MOST", Since: first, OpenSM: "max_wire_smps2",
		Meaning: "maximum number of SMPs in flight; less if the port's limit is lower",
		value:   number[int]{at: func(c *Config) *int { return &c.Window }, max: 4096, zero: "32 on a device, 512 in a simulation"},
	},
	{
		Name: "window-start", Group: Sweeps, Arg: "N", Since: v020, OpenSM: "max_wire_smps",
		Meaning: "initial number of SMPs in flight; responses widen the window, losses narrow it",
		value:   number[int]{at: func(c *Config) *int { return &c.SM.Window }, min: 1, max: 4096},
	},
	{
		Name: "sweep-interval", Group: Sweeps, Arg: "TIME", Since: first, OpenSM: "sweep_interval", Live: true,
		Meaning: "time between light sweeps",
		value:   span{at: func(c *Config) *time.Duration { return &c.SM.SweepInterval }, zero: "none"},
	},
	{
		Name: "full-interval", Group: Sweeps, Arg: "TIME", Since: v020, OpenSM: "force_heavy_sweep", Live: true,
		Meaning: "time between periodic full sweeps",
		value:   span{at: func(c *Config) *time.Duration { return &c.SM.FullInterval }, zero: "none"},
	},
	{
		Name: "retry-interval", Group: Sweeps, Arg: "TIME", Since: v020, Live: true,
		Meaning: "time until a node that did not respond, or a refused placement, is retried; for nodes it doubles up to 16 times",
		value:   span{at: func(c *Config) *time.Duration { return &c.SM.RetryInterval }},
	},
	{
		Name: "trap-settle", Group: Sweeps, Arg: "TIME", Since: v020, Live: true,
		Meaning: "time that a sweep caused by a trap waits for more traps",
		value:   span{at: func(c *Config) *time.Duration { return &c.SM.TrapSettle }, zero: "none"},
	},
	{
		Name: "trap-min-gap", Group: Sweeps, Arg: "TIME", Since: v020, Live: true,
		Meaning: "minimum time between two sweeps caused by traps",
		value:   span{at: func(c *Config) *time.Duration { return &c.SM.TrapMinGap }, zero: "none"},
	},
	{
		Name: "poll-interval", Group: Sweeps, Arg: "TIME", Since: first, OpenSM: "sminfo_polling_timeout", Live: true,
		Meaning: "time between a standby's polls of the master",
		value:   span{at: func(c *Config) *time.Duration { return &c.SM.PollInterval }},
	},
	{
		Name: "poll-retries", Group: Sweeps, Arg: "POLLS", Since: first, OpenSM: "polling_retry_number", Live: true,
		Meaning: "unanswered polls after which the master counts as dead",
		value:   number[int]{at: func(c *Config) *int { return &c.SM.PollRetries }, min: 1, max: 1000},
	},
	{
		Name: "no-clients-rereg", Group: Sweeps, Since: v020, OpenSM: "no_clients_rereg", Live: true,
		Meaning: "do not ask hosts that are new to this manager to reregister with the SA and to rejoin their groups",
		value:   boolean{func(c *Config) *bool { return &c.SM.NoReregister }},
	},
	{
		Name: "damp-failures", Group: Damping, Arg: "FAILURES", Since: first, Live: true,
		Meaning: "consecutive failures of a link after which it is held down",
		value:   number[int]{at: func(c *Config) *int { return &c.SM.DampHold }, max: 1000000, zero: "never"},
	},
	{
		Name: "damp-free", Group: Damping, Arg: "FAILURES", Since: v020, Live: true,
		Meaning: "consecutive failures of a link without consequence; each further one doubles the time for which the link is held down",
		value:   number[int]{at: func(c *Config) *int { return &c.SM.DampFree }, max: 1000000},
	},
	{
		Name: "damp-delay", Group: Damping, Arg: "TIME", Since: v020, Live: true,
		Meaning: "hold-down time after the first failure that counts",
		value:   span{at: func(c *Config) *time.Duration { return &c.SM.DampDelay }},
	},
	{
		Name: "damp-quiet", Group: Damping, Arg: "TIME", Since: first, Live: true,
		Meaning: "time that a held-down link must be quiet before it is activated; it doubles up to 16 times",
		value:   span{at: func(c *Config) *time.Duration { return &c.SM.DampQuiet }},
	},
}
