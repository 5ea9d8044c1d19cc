package opensm

import "slices"

// Verdict is what becomes of an option that is not at OpenSM's default.
type Verdict uint8

// The verdicts.
const (
	// Taken: a setting of Heddle means the same.
	Taken Verdict = iota
	// Needless: Heddle always does what the option can ask for, or has nothing that it could
	// change.
	Needless
	// Lost: Heddle does not do what the option asks for.
	Lost
)

// String is the word of the documentation.
func (v Verdict) String() string {
	return [...]string{"taken over", "not needed", "left out"}[v]
}

// Option is an option of opensm.conf.
type Option struct {
	Name string
	// Default is the value without a line, as `opensm -c` writes it.
	Default string
	Verdict Verdict
	// Setting is the one of Heddle that takes the value over; empty: none.
	Setting string
	// Means says how the value is taken over, why that is not needed, or what is lost. It begins
	// with a small letter and has no full stop at its end; empty if the setting says all.
	Means string
	// Vendor marks an option that NVIDIA's manager has, and OpenSM has not.
	Vendor bool

	kind kind
	take func(x *taking) // nil: by Verdict
}

// Options are all options of OpenSM 3.3.24, in the order of its template, behind them those that
// the template does not have, and last those of NVIDIA's manager that Heddle knows.
func Options() []Option { return slices.Clone(table) }

// Find returns the option of a name, nil if OpenSM has none.
func Find(name string) *Option {
	if i, ok := byName[name]; ok {
		return &table[i]
	}
	return nil
}

var (
	table  []Option
	byName = map[string]int{}
)

func init() {
	for i := range vendorOptions {
		vendorOptions[i].Vendor = true
	}
	table = slices.Concat(deviceOptions, partitionOptions, routingOptions, serviceOptions, programOptions, qosOptions(), congestionOptions, vendorOptions)
	for i := range table {
		byName[table[i].Name] = i
	}
}

var deviceOptions = []Option{
	{Name: "guid", kind: hex64, Default: "0x0000000000000000", Setting: "port", Means: "as umad:GUID; without one give --port", take: takeGUID},
	{Name: "m_key", kind: hex64, Default: "0x0000000000000000", Setting: "m-key"},
	{Name: "m_key_lease_period", kind: number16, Default: "0", Setting: "m-key-lease"},
	{Name: "m_key_protection_level", kind: number8, Default: "0", Setting: "m-key-protect"},
	{Name: "m_key_lookup", kind: boolean, Default: "TRUE", Verdict: Needless, Means: "stored M_Keys are always tried; the import stores those of guid2mkey"},
	{Name: "sm_key", kind: hex64, Default: "0x0000000000000001", Setting: "sm-key"},
	{Name: "sa_key", kind: hex64, Default: "0x0000000000000001", Setting: "sa-key", Means: "OpenSM's default 1 is not taken over, because every host knows it: Heddle makes a random key, and accepts 1 from its own port", take: takeSAKey},
	{Name: "subnet_prefix", kind: hex64, Default: "0xfe80000000000000", Setting: "subnet-prefix"},
	{Name: "lmc", kind: number8, Default: "0", Setting: "lmc"},
	{Name: "lmc_esp0", kind: boolean, Default: "FALSE", Setting: "switch-lmc", Means: "TRUE as the LMC of hosts, FALSE as 0", take: takeSwitchLMC},
	{Name: "sm_sl", kind: number8, Default: "0", Setting: "sm-sl"},
	{Name: "packet_life_time", kind: hex8, Default: "0x12", Setting: "packet-life"},
	{Name: "vl_stall_count", kind: hex8, Default: "0x07", Setting: "vl-stall-count"},
	{Name: "leaf_vl_stall_count", kind: hex8, Default: "0x07", Setting: "leaf-vl-stall-count"},
	{Name: "head_of_queue_lifetime", kind: hex8, Default: "0x12", Setting: "hoq-life"},
	{Name: "leaf_head_of_queue_lifetime", kind: hex8, Default: "0x10", Setting: "leaf-hoq-life"},
	{Name: "max_op_vls", kind: number8, Default: "5", Setting: "max-vls", Means: "codes 1 to 5 as 1, 2, 4, 8 and 15 lanes", take: takeMaxVLs},
	{Name: "force_link_speed", kind: number8, Default: "15", Setting: "link-speed", take: takeMask(15)},
	{Name: "force_link_speed_ext", kind: number8, Default: "31", Setting: "link-speed-ext", take: takeMask(31)},
	{Name: "force_link_width", kind: number8, Default: "255", Setting: "link-width", take: takeMask(255)},
	{Name: "fdr10", kind: number8, Default: "1", Verdict: Lost, Means: "ports keep the FDR10 setting that they have; check the speed of links between FDR10 devices", take: takeFDR10},
	{Name: "subnet_timeout", kind: number8, Default: "18", Setting: "subnet-timeout"},
	{Name: "local_phy_errors_threshold", kind: hex8, Default: "0x08", Setting: "local-phy-errors"},
	{Name: "overrun_errors_threshold", kind: hex8, Default: "0x08", Setting: "overrun-errors"},
	{Name: "use_mfttop", kind: boolean, Default: "TRUE", Verdict: Needless, Means: "always used if the switch supports it"},
}

var partitionOptions = []Option{
	{Name: "partition_config_file", kind: text, Default: "/etc/opensm/partitions.conf", Setting: "partitions", take: takeFile},
	{Name: "no_partition_enforcement", kind: boolean, Default: "FALSE", Setting: "part-enforce", Means: "TRUE as off", take: takeNoEnforcement},
	{Name: "part_enforce", kind: text, Default: "both", Setting: "part-enforce"},
	{Name: "allow_both_pkeys", kind: boolean, Default: "FALSE", Verdict: Needless, Means: "both in a partition file always means both"},
	{Name: "keep_pkey_indexes", kind: boolean, Default: "TRUE", Verdict: Needless, Means: "P_Keys always keep their index"},
	{Name: "sm_assigned_guid", kind: hex8, Default: "0x00", Setting: "sm-assigned-guid"},
	{Name: "sweep_interval", kind: number32, Default: "10", Setting: "sweep-interval", take: takeSeconds},
	{Name: "reassign_lids", kind: boolean, Default: "FALSE", Verdict: Lost, Means: "TRUE is refused without --force: it assigns every port another LID at each start", take: takeReassign},
	{Name: "force_heavy_sweep", kind: boolean, Default: "FALSE", Setting: "full-interval", Means: "TRUE as the sweep interval", take: takeHeavy},
	{Name: "sweep_on_trap", kind: boolean, Default: "TRUE", Verdict: Needless, Means: "a trap causes a sweep of its region only, or the reading of one port"},
}

var routingOptions = []Option{
	{Name: "port_profile_switch_nodes", kind: boolean, Default: "FALSE", Verdict: Lost, Means: "routes to switches do not count as load"},
	{Name: "port_prof_ignore_file", kind: text, Default: Null, Setting: "unbalanced", take: takeFile},
	{Name: "hop_weights_file", kind: text, Default: Null, Setting: "hop-weights", take: takeFile},
	{Name: portOrder, kind: text, Default: Null, Setting: "port-order", take: takeFile},
	{Name: "routing_engine", kind: text, Default: Null, Setting: "engine", Means: "torus-2QoS is torus; OpenSM's silent last engine minhop is written down, and updn behind it where minhop could deadlock; no_fallback leaves both out", take: takeEngines},
	{Name: "avoid_throttled_links", kind: boolean, Default: "FALSE", Setting: "avoid-throttled-links", Means: "for all engines except dor, torus and file, also in the running manager; OpenSM never routes over such links, Heddle does over the last one to a part of the subnet and if most links of a switch are slow", take: takeThrottled},
	{Name: "connect_roots", kind: boolean, Default: "FALSE", Setting: "connect-roots", Means: "always so"},
	{Name: "use_ucast_cache", kind: boolean, Default: "FALSE", Verdict: Needless, Means: "tables that need no change are always kept"},
	{Name: "lid_matrix_dump_file", kind: text, Default: Null, Verdict: Lost, Means: "the hops of the engine file are computed"},
	{Name: "lfts_file", kind: text, Default: Null, Setting: "fdbs", take: takeFile},
	{Name: "root_guid_file", kind: text, Default: Null, Setting: "roots", take: takeFile},
	{Name: "cn_guid_file", kind: text, Default: Null, Setting: "compute-nodes", take: takeFile},
	{Name: "io_guid_file", kind: text, Default: Null, Setting: "io-nodes", take: takeFile},
	{Name: "quasi_ftree_indexing", kind: boolean, Default: "FALSE", Verdict: Needless, Means: "ftree finds the order of switches"},
	{Name: "max_reverse_hops", kind: number16, Default: "0", Setting: "max-reverse-hops"},
	{Name: "ids_guid_file", kind: text, Default: Null, Setting: "ids", take: takeFile},
	{Name: "guid_routing_order_file", kind: text, Default: Null, Setting: "routing-order", take: takeFile},
	{Name: "do_mesh_analysis", kind: boolean, Default: "FALSE", Verdict: Needless, Means: "lash finds the mesh"},
	{Name: "lash_start_vl", kind: number8, Default: "0", Verdict: Lost, Means: "lash begins with VL 0", take: takeWithEngine("lash")},
	{Name: "nue_max_num_vls", kind: number8, Default: "1", Setting: "route-vls", Means: "if nue is one of the engines; it holds for all of them", take: takeNueVLs},
	{Name: "nue_include_switches", kind: boolean, Default: "FALSE", Verdict: Needless, Means: "nue always proves paths of switches too"},
	{Name: "port_shifting", kind: boolean, Default: "FALSE", Verdict: Lost, Means: "ports of equal cost are taken in another order"},
	{Name: "scatter_ports", kind: number32, Default: "0", Verdict: Lost, Means: "ports of equal cost are used in turn and not by chance"},
	{Name: "guid_routing_order_no_scatter", kind: boolean, Default: "FALSE", Verdict: Needless, Means: "nothing is scattered"},
	{Name: "sa_db_file", kind: text, Default: Null, Means: "groups, services, subscriptions and alias GUIDs go into the store", take: takeDump},
	{Name: "sa_db_dump", kind: boolean, Default: "FALSE", Verdict: Needless, Means: "every change is stored immediately"},
	{Name: "torus_config", kind: text, Default: "/etc/opensm/torus-2QoS.conf", Setting: "torus-config", Means: "if torus-2QoS is one of the engines", take: takeTorus},
}

var serviceOptions = []Option{
	{Name: "sm_priority", kind: number8, Default: "0", Setting: "priority"},
	{Name: "ignore_other_sm", kind: boolean, Default: "FALSE", Verdict: Lost, Means: "another manager of higher priority becomes master"},
	{Name: "sminfo_polling_timeout", kind: number32, Default: "10000", Setting: "poll-interval", take: takeMilliseconds},
	{Name: "polling_retry_number", kind: number32, Default: "4", Setting: "poll-retries", Means: "0 as 1", take: takePollRetries},
	{Name: "honor_guid2lid_file", kind: boolean, Default: "FALSE", Verdict: Needless, Means: "stored LIDs always count; the import stores those of guid2lid"},
	{Name: "max_wire_smps", kind: number32, Default: "4", Setting: "window-start", Means: "and --window as the most; the default 4 is left out, because Heddle learns how many the subnet takes", take: takeWindow},
	{Name: "max_wire_smps2", kind: number32, Default: "4", Setting: "window", take: takeWindow2},
	{Name: "max_smps_timeout", kind: number32, Default: "600000", Verdict: Needless, Means: "time-outs follow the responses"},
	{Name: "transaction_timeout", kind: number32, Default: "200", Setting: "smp-timeout", take: takeMilliseconds},
	{Name: "transaction_retries", kind: number32, Default: "3", Setting: "smp-retries"},
	{Name: "long_transaction_timeout", kind: number32, Default: "500", Verdict: Needless, Means: "time-outs follow the responses"},
	{Name: "max_msg_fifo_timeout", kind: number32, Default: "10000", Verdict: Needless, Means: "if the queue is full, a request is answered BUSY immediately (--sa-queue)"},
	{Name: "single_thread", kind: boolean, Default: "FALSE", Verdict: Needless, Means: "answers do not depend on the number of workers"},
	{Name: "daemon", kind: boolean, Default: "FALSE", Verdict: Needless, Means: "the service manager runs heddle"},
	{Name: "sm_inactive", kind: boolean, Default: "FALSE", Setting: "inactive"},
	{Name: "babbling_port_policy", kind: boolean, Default: "FALSE", Verdict: Needless, Means: "links that keep failing are always held down for a while (--damp-failures, --damp-quiet), and come back"},
	{Name: "drop_event_subscriptions", kind: boolean, Default: "FALSE", Setting: "drop-event-subscriptions-after", Means: "TRUE as 1s; FALSE as Heddle's default, after which a host that returns is asked to subscribe again", take: takeDropSubscriptions},
	{Name: "ipoib_mcgroup_creation_validation", kind: boolean, Default: "TRUE", Verdict: Needless, Means: "always checked"},
	{Name: "mcgroup_join_validation", kind: boolean, Default: "TRUE", Verdict: Needless, Means: "always checked"},
	{Name: "use_original_extended_sa_rates_only", kind: boolean, Default: "FALSE", Verdict: Needless, Means: "decided for each requester by the capabilities that it announces"},
	{Name: "use_optimized_slvl", kind: boolean, Default: "FALSE", Verdict: Needless, Means: "only lane tables that differ are written"},
	{Name: "fsync_high_avail_files", kind: boolean, Default: "TRUE", Verdict: Needless, Means: "the store is always synced"},
	{Name: "perfmgr", kind: boolean, Default: "FALSE", Setting: "perf", Means: "with the period of perfmgr_sweep_time_s", take: takePerf},
	{Name: "perfmgr_redir", kind: boolean, Default: "TRUE", Verdict: Needless, Means: "redirection is always followed"},
	{Name: "perfmgr_sweep_time_s", kind: number16, Default: "180", Setting: "perf", Means: "with perfmgr TRUE", take: takePart("perfmgr", nil)},
	{Name: "perfmgr_max_outstanding_queries", kind: number32, Default: "500", Setting: "perf-window", Means: "with perfmgr TRUE; the default 500 is left out, as it is above what a port takes", take: takePart("perfmgr", takePerfWindow)},
	{Name: "perfmgr_ignore_cas", kind: boolean, Default: "FALSE", Setting: "perf-hosts", Means: "with perfmgr TRUE; the opposite", take: takePart("perfmgr", takePerfHosts)},
	{Name: "perfmgr_rm_nodes", kind: boolean, Default: "TRUE", Verdict: Needless, Means: "totals last as long as the manager runs"},
	{Name: "perfmgr_log_errors", kind: boolean, Default: "TRUE", Verdict: Needless, Means: "errors open findings, and are in events and metrics"},
	{Name: "perfmgr_query_cpi", kind: boolean, Default: "TRUE", Verdict: Needless, Means: "always queried once"},
	{Name: "perfmgr_xmit_wait_log", kind: boolean, Default: "FALSE", Verdict: Needless, Means: "a port that waits opens a finding"},
	{Name: "perfmgr_xmit_wait_threshold", kind: number32, Default: "65535", Verdict: Needless, Means: "a finding uses the share of time (--findings-thresholds)"},
	{Name: "event_db_dump_file", kind: text, Default: Null, Verdict: Lost, Means: "'heddle ctl perf dump --opensm' prints the same text; no file is written"},
	{Name: "event_plugin_name", kind: text, Default: Null, Verdict: Lost, Means: "plug-ins of OpenSM cannot be loaded; events are at /v1/events and in the log"},
	{Name: "event_plugin_options", kind: text, Default: Null, Verdict: Needless, Means: "without a plug-in they have no effect"},
	{Name: "node_name_map_name", kind: text, Default: Null, Setting: "node-names", take: takeFile},
}

var programOptions = []Option{
	{Name: "log_flags", kind: hex8, Default: "0x03", Setting: "log-level", Means: "0x04 and 0x08 as debug, 0x01 alone as error", take: takeLogFlags},
	{Name: "force_log_flush", kind: boolean, Default: "FALSE", Verdict: Needless, Means: "a line of the log is written immediately"},
	{Name: "log_file", kind: text, Default: "/var/log/opensm.log", Verdict: Needless, Means: "the log goes to standard error, and so to the journal"},
	{Name: "log_max_size", kind: number32, Default: "0", Verdict: Needless, Means: "the journal has its own limit"},
	{Name: "accum_log_file", kind: boolean, Default: "TRUE", Verdict: Needless, Means: "the journal keeps old entries"},
	{Name: "per_module_logging_file", kind: text, Default: "/etc/opensm/per-module-logging.conf", Verdict: Needless, Means: "lines have a kind to select them by"},
	{Name: "dump_files_dir", kind: text, Default: "/var/log/", Setting: "dump", Means: "the default is left out; OpenSM's own dumps need log flag 0x40", take: takeDumpDir},
	{Name: "enable_quirks", kind: boolean, Default: "FALSE", Verdict: Lost, Means: "there are no switches for single devices"},
	{Name: "no_clients_rereg", kind: boolean, Default: "FALSE", Setting: "no-clients-rereg"},
	{Name: "disable_multicast", kind: boolean, Default: "FALSE", Verdict: Lost, Means: "multicast groups are always served"},
	{Name: "exit_on_fatal", kind: boolean, Default: "TRUE", Verdict: Needless, Means: "a manager that cannot start reports the reason and ends; a fault of the subnet never ends it"},
	{Name: "console", kind: text, Default: "off", Verdict: Needless, Means: "'heddle ctl' has its commands"},
	{Name: "console_port", kind: number16, Default: "10000", Verdict: Needless, Means: "'heddle ctl' uses the API"},
}

var congestionOptions = []Option{
	{Name: "congestion_control", kind: boolean, Default: "FALSE", Setting: "congestion-control", Means: "TRUE as act", take: takeCongestion},
	{Name: "cc_key", kind: hex64, Default: "0x0000000000000000", Setting: "cc-key", take: takePart("congestion_control", takeSame)},
	{Name: "cc_max_outstanding_mads", kind: number32, Default: "500", Setting: "cc-window", Means: "the default 500 is left out, as it is above what a port takes", take: takePart("congestion_control", takePerfWindow)},
	{Name: "cc_sw_cong_setting_control_map", kind: hex32, Default: "0x0", Setting: "cc-switch-map", take: takePart("congestion_control", takeSame)},
	{Name: "cc_sw_cong_setting_victim_mask", kind: mask256, Default: zeroMask, Setting: "cc-victim-mask", take: takePart("congestion_control", takeSame)},
	{Name: "cc_sw_cong_setting_credit_mask", kind: mask256, Default: zeroMask, Setting: "cc-credit-mask", take: takePart("congestion_control", takeSame)},
	{Name: "cc_sw_cong_setting_threshold", kind: hex8, Default: "0x00", Setting: "cc-threshold", take: takePart("congestion_control", takeSame)},
	{Name: "cc_sw_cong_setting_packet_size", kind: number8, Default: "0", Setting: "cc-packet-size", take: takePart("congestion_control", takeSame)},
	{Name: "cc_sw_cong_setting_credit_starvation_threshold", kind: hex8, Default: "0x00", Setting: "cc-starvation-threshold", take: takePart("congestion_control", takeSame)},
	{Name: "cc_sw_cong_setting_credit_starvation_return_delay", kind: delay, Default: "0:0", Setting: "cc-starvation-delay", take: takePart("congestion_control", takeSame)},
	{Name: "cc_sw_cong_setting_marking_rate", kind: number16, Default: "0", Setting: "cc-marking-rate", take: takePart("congestion_control", takeSame)},
	{Name: "cc_ca_cong_setting_port_control", kind: hex16, Default: "0x0000", Setting: "cc-control", Means: "0 as qp, 1 as sl", take: takePart("congestion_control", takePortControl)},
	{Name: "cc_ca_cong_setting_control_map", kind: hex16, Default: "0x0000", Setting: "cc-sl-map", take: takePart("congestion_control", takeSame)},
	{Name: "cc_ca_cong_setting_ccti_timer", kind: level16, Default: "0 0", Setting: "cc-timer", take: takePart("congestion_control", takeLevels)},
	{Name: "cc_ca_cong_setting_ccti_increase", kind: level8, Default: "0 0", Setting: "cc-increase", take: takePart("congestion_control", takeLevels)},
	{Name: "cc_ca_cong_setting_trigger_threshold", kind: level8, Default: "0 0", Setting: "cc-trigger", take: takePart("congestion_control", takeLevels)},
	{Name: "cc_ca_cong_setting_ccti_min", kind: level8, Default: "0 0", Setting: "cc-min", take: takePart("congestion_control", takeLevels)},
	{Name: "cc_cct", kind: delays, Default: Null, Setting: "cc-table", Means: "not set as none", take: takePart("congestion_control", takeTable)},
	{Name: "prefix_routes_file", kind: text, Default: "/etc/opensm/prefix-routes.conf", Setting: "prefix-routes", take: takeFile},
	{Name: "consolidate_ipv6_snm_req", kind: boolean, Default: "FALSE", Setting: "consolidate-ipv6-snm-req"},
	{Name: "log_prefix", kind: text, Default: Null, Verdict: Needless, Means: "the journal names the unit"},

	// Not in the template.
	{Name: oldPortOrder, kind: text, Default: Null, Setting: "port-order", Means: "the old name of " + portOrder, take: takeOldPortOrder},
	{Name: "max_rate_enum", kind: number8, Default: "63", Verdict: Needless, Means: "decided for each requester by the capabilities that it announces"},
}

// vendorOptions are of NVIDIA's manager. Without a line Heddle's defaults stay.
var vendorOptions = []Option{
	{Name: "virt_enabled", kind: number8, Default: "0", Setting: "virtualization", Means: "0, 1 and 2 as ignore, off and on", take: takeVendor(takeVirtual)},
	{Name: "virt_max_ports_in_process", kind: number32, Default: "64", Setting: "max-virtual-ports", take: takeVendor(takeSame)},
	{Name: "virt_default_hop_limit", kind: number8, Default: "2", Setting: "virt-default-hop-limit", take: takeVendor(takeSame)},
	{Name: "enable_virt_rec_ext", kind: boolean, Default: "FALSE", Setting: "enable-virt-rec-ext", take: takeVendor(takeSame)},
}

const zeroMask = "0x0000000000000000000000000000000000000000000000000000000000000000"

// qosClasses are the classes of ports with lane tables of their own; the first is for all others.
var qosClasses = []string{"", "ca_", "sw0_", "swe_", "rtr_"}

// qosOptions are the three options of QoS and, for each class of ports, the five about its lanes.
func qosOptions() []Option {
	list := []Option{
		{Name: "qos", kind: boolean, Default: "FALSE", Setting: "qos"},
		{Name: "qos_policy_file", kind: text, Default: "/etc/opensm/qos-policy.conf", Setting: "qos-policy", Means: "with qos TRUE", take: takePart("qos", takeFile)},
		{Name: "suppress_sl2vl_mad_status_errors", kind: boolean, Default: "FALSE", Verdict: Needless, Means: "a refused table is one event"},
	}
	for _, class := range qosClasses {
		table := func(name string, k kind, def, setting, means string) {
			list = append(list, Option{Name: "qos_" + class + name, kind: k, Default: def, Setting: setting, Means: means, take: takeQoS(class, name, setting)})
		}
		list = append(list, Option{Name: "qos_" + class + "max_vls", kind: number32, Default: "0", Verdict: Needless, Means: "OpenSM reads it and ignores it"})
		table("high_limit", signed32, "-1", "qos-high-limit", "with qos TRUE")
		table("vlarb_high", text, Null, "qos-vlarb-high", "with qos TRUE")
		table("vlarb_low", text, Null, "qos-vlarb-low", "with qos TRUE")
		table("sl2vl", text, Null, "qos-sl2vl", "with qos TRUE; applies while forwarding tables use one lane")
	}
	return list
}
