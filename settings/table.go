package settings

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"heddle/ib"
	"heddle/sa"
	"heddle/sm"
)

// table has every setting of the daemon, in the order of help and documentation:
// first subnet management, then services for hosts, then the program.
var table = concat(subnetTable, routingTable, linkTable, timeTable, hostTable, counterTable, healthTable, congestionTable, programTable, haTable, etcdTable)

func concat(parts ...[]Setting) (all []Setting) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

var subnetTable = []Setting{
	{
		Name: "port", Group: Subnet, Arg: "PORT", Since: first, OpenSM: "guid", Commands: []string{"sm", "plan"},
		Meaning: "port through which to manage the subnet: umad:DEVICE/PORT or umad:0xGUID (the port's), either with ,rmpp=own; or ibsim:NODE[@SOCKNAME][,rmpp=on|off]",
		value:   text{func(c *Config) *string { return &c.Port }},
	},
	{
		Name: "once", Group: Subnet, Since: first, Commands: []string{"sm"},
		Meaning: "bring the subnet up, release the port and exit",
		value:   boolean{func(c *Config) *bool { return &c.Once }},
	},
	{
		Name: "priority", Group: Subnet, Arg: "N", Since: first, OpenSM: "sm_priority", Live: true,
		Meaning: "priority of this manager; the highest becomes master",
		value:   number[uint8]{at: func(c *Config) *uint8 { return &c.SM.Priority }, max: 15},
	},
	{
		Name: "inactive", Group: Subnet, Since: v020, OpenSM: "sm_inactive", Commands: []string{"sm", "up"},
		Meaning: "take no part in the election of a master, and leave the subnet alone, until 'heddle ctl ha activate' or until the master makes this manager a standby",
		value:   boolean{func(c *Config) *bool { return &c.SM.Inactive }},
	},
	{
		Name: "claim-wait", Group: Subnet, Arg: "TIME", Since: v020,
		Meaning: "maximum time at the start to wait for another manager to release the port",
		value:   span{at: func(c *Config) *time.Duration { return &c.ClaimWait }, zero: "not at all"},
	},
	{
		Name: "subnet-prefix", Group: Subnet, Arg: "PREFIX", Since: first, OpenSM: "subnet_prefix",
		Meaning: "subnet prefix of the GIDs",
		value:   key[ib.SubnetPrefix]{func(c *Config) *ib.SubnetPrefix { return &c.SM.Prefix }},
	},
	{
		Name: "lmc", Group: Subnet, Arg: "N", Since: first, OpenSM: "lmc",
		Meaning: "LMC of CA and router ports: 2^N LIDs for each",
		value:   number[uint8]{at: func(c *Config) *uint8 { return &c.SM.LMC }, max: 7},
	},
	{
		Name: "switch-lmc", Group: Subnet, Arg: "N", Since: v020, OpenSM: "lmc_esp0",
		Meaning: "LMC of enhanced switch ports 0; base switch ports 0 always have one LID. OpenSM only enables or disables the LMC of the other ports",
		value:   number[uint8]{at: func(c *Config) *uint8 { return &c.SM.LMCPort0 }, max: 7},
	},
	{
		Name: "sm-sl", Group: Subnet, Arg: "SL", Since: v020, OpenSM: "sm_sl",
		Meaning: "service level of packets from hosts to the manager and the SA; auto: one on a lane that no path uses, if the engine uses levels and lanes are left, else 0",
		value:   managerLevel{},
	},
	{
		Name: "sm-key", Group: Keys, Arg: "KEY", Since: first, OpenSM: "sm_key", Secret: true,
		Meaning: "SM_Key, shared by the managers of the subnet (OpenSM has 1 too)",
		value:   key[uint64]{func(c *Config) *uint64 { return &c.SM.SMKey }},
	},
	{
		Name: "sm-key-file", Group: Keys, Arg: "FILE", Since: v020,
		Meaning: "file with the SM_Key, in place of --sm-key, which every user of this machine can see; default: the credential sm-key of the service, if it has one",
		value:   text{func(c *Config) *string { return &c.Secrets.SMKey }},
	},
	{
		Name: "m-key", Group: Keys, Arg: "KEY", Since: first, OpenSM: "m_key", Secret: true,
		Meaning: "M_Key to protect every port with; 0 for none",
		value:   key[ib.MKey]{func(c *Config) *ib.MKey { return &c.SM.MKey }},
	},
	{
		Name: "m-key-file", Group: Keys, Arg: "FILE", Since: v020,
		Meaning: "file with the M_Key, in place of --m-key, which every user of this machine can see; default: the credential m-key of the service, if it has one",
		value:   text{func(c *Config) *string { return &c.Secrets.MKey }},
	},
	{
		Name: "m-key-lease", Group: Keys, Arg: "SECONDS", Unit: "seconds", Since: first, OpenSM: "m_key_lease_period",
		Meaning: "M_Key lease, after which a port that received a wrong key clears its protection",
		value:   number[uint16]{at: func(c *Config) *uint16 { return &c.SM.MKeyLease }, max: 65535, zero: "it never expires"},
	},
	{
		Name: "m-key-protect", Group: Keys, Arg: "BITS", Since: first, OpenSM: "m_key_protection_level",
		Meaning: "M_Key protection bits: how a port answers requests without the key",
		value:   number[uint8]{at: func(c *Config) *uint8 { return &c.SM.MKeyProtect }, max: 3},
	},
	{
		Name: "sa-key", Group: Keys, Arg: "KEY", Since: first, OpenSM: "sa_key", Secret: true,
		Meaning: "64-bit key that makes an SA request trusted, as its SM_Key; default: a random one, kept in the state directory and printed by 'heddle ctl sa-key'. Unless this is 0, which trusts no request, key 1 is also trusted from the manager's own port",
		value: special{
			parse: func(c *Config, s string) error {
				if s == "" {
					c.SAKey = SAKey{}
					return nil
				}
				v, err := strconv.ParseUint(s, 0, 64)
				if err != nil {
					return errRange
				}
				c.SAKey = SAKey{Given: true, Key: v}
				return nil
			},
			show: func(c *Config) string {
				if !c.SAKey.Given {
					return ""
				}
				return "0x" + strconv.FormatUint(c.SAKey.Key, 16)
			},
			want: "a 64-bit number, or empty for a random one",
		},
	},
	{
		Name: "sa-key-file", Group: Keys, Arg: "FILE", Since: v020,
		Meaning: "file with the SA key, in place of --sa-key, which every user of this machine can see; default: the credential sa-key of the service, if it has one",
		value:   text{func(c *Config) *string { return &c.Secrets.SAKey }},
	},
}

var hostTable = []Setting{
	{
		Name: "partitions", Group: Access, Arg: "FILE", Since: first, OpenSM: "partition_config_file", Live: true,
		Meaning: "partition file in the format of OpenSM's partitions.conf; read again on SIGHUP; default: the stored partitions, otherwise all ports in the default partition",
		value:   text{func(c *Config) *string { return &c.Files.Partitions }},
	},
	{
		Name: "part-enforce", Group: Access, Arg: "WHERE", Since: first, OpenSM: "part_enforce", Live: true,
		Meaning: "where switches drop packets with P_Keys that the attached host's port lacks: both, in (packets from the host), out (packets to the host) or off",
		value: choice[sm.Enforce]{func(c *Config) *sm.Enforce { return &c.SM.PartEnforce }, []word[sm.Enforce]{
			{"both", sm.EnforceBoth}, {"in", sm.EnforceIn}, {"out", sm.EnforceOut}, {"off", sm.EnforceOff},
		}},
	},
	{
		Name: "strict-partitions", Group: Access, Since: v020,
		Meaning: "revoke P_Keys and addresses of virtual functions that the store does not know, even if another manager may have assigned them; by default a manager whose store may lack them keeps them (docs/ha.md)",
		value:   boolean{func(c *Config) *bool { return &c.SM.StrictPartitions }},
	},
	{
		Name: "groups", Group: Access, Arg: "FILE", Since: first,
		Meaning: "file with permanent multicast groups, a line each: MLID MGID [sl=N] then port GUIDs; send:GUID only sends",
		value:   text{func(c *Config) *string { return &c.Files.Groups }},
	},
	{
		Name: "consolidate-ipv6-snm-req", Group: Access, Since: first, OpenSM: "consolidate_ipv6_snm_req", Live: true,
		Meaning: "IPv6 solicited-node groups of one scope and P_Key always share an MLID, not only when no MLID is free",
		value:   boolean{func(c *Config) *bool { return &c.Registry.ConsolidateSNM }},
	},
	{
		Name: "exclusive-mlids", Group: Access, Since: first, Live: true,
		Meaning: "refuse a new multicast group when no MLID is free; otherwise it shares the MLID of groups with the same P_Key, MTU, rate and SL",
		value:   boolean{func(c *Config) *bool { return &c.Registry.ExclusiveMLIDs }},
	},
	{
		Name: "rejoin-time", Group: Access, Arg: "TIME", Since: v020, Live: true,
		Meaning: "time that ports have to rejoin their multicast groups after this manager takes over the subnet from another one; until then they stay members",
		value:   span{at: func(c *Config) *time.Duration { return &c.Registry.RejoinTime }, zero: "nobody has to"},
	},
	{
		Name: "qos-policy", Group: Answers, Arg: "FILE", Since: first, OpenSM: "qos_policy_file", Live: true,
		Meaning: "file with the QoS policy of path answers, in the format of OpenSM's qos-policy.conf; read again on SIGHUP",
		value:   text{func(c *Config) *string { return &c.Files.QoSPolicy }},
	},
	{
		Name: "prefix-routes", Group: Answers, Arg: "FILE", Since: first, OpenSM: "prefix_routes_file", Live: true,
		Meaning: "file of routers to other subnets, in the format of OpenSM's prefix-routes.conf: a subnet prefix and a router's port GUID a line, * for any; read again on SIGHUP",
		value:   text{func(c *Config) *string { return &c.Files.PrefixRoutes }},
	},
	{
		Name: "sa-db", Group: Answers, Arg: "FILE", Since: first, OpenSM: "sa_db_file",
		Meaning: "OpenSM's SA dump (opensm-sa.dump): groups, services, subscriptions and alias GUIDs are imported, unless the state already has some",
		value:   text{func(c *Config) *string { return &c.Files.SADump }},
	},
	{
		Name: "subnet-supports-sa-path-caching", Group: Answers, Arg: "BITS", Since: first, Bare: "1", Live: true,
		Meaning: "value of the reserved bits at bit offset 353 of PathRecord answers, which permits hosts to cache paths to GIDs that keep their LIDs; without an argument 1",
		value:   number[uint8]{at: func(c *Config) *uint8 { return &c.SA.PathCaching }, max: 7, zero: "none"},
	},
	{
		Name: "virt-default-hop-limit", Group: Answers, Arg: "N", Since: first, OpenSM: "virt_default_hop_limit", Live: true,
		Meaning: "HopLimit of paths to and from virtual ports that share their LID, which tells hosts that packets need a GRH",
		value:   number[uint8]{at: func(c *Config) *uint8 { return &c.SA.VirtHopLimit }, min: 2, max: 255},
	},
	{
		Name: "enable-virt-rec-ext", Group: Answers, Since: first, OpenSM: "enable_virt_rec_ext", Live: true,
		Meaning: "include virtual ports with their own LIDs in answers to NodeRecord and PortInfoRecord queries",
		value:   boolean{func(c *Config) *bool { return &c.SA.VirtRecords }},
	},
	{
		Name: "sa-queue", Group: Answers, Arg: "MOST", Since: first,
		Meaning: "maximum number of waiting SA requests; further ones are answered BUSY",
		value:   number[int]{at: func(c *Config) *int { return &c.Queue }, max: 65535, zero: "8192"},
	},
	{
		Name: "sa-queue-each", Group: Answers, Arg: "MOST", Since: first,
		Meaning: "maximum number of waiting SA requests of one LID",
		value:   number[int]{at: func(c *Config) *int { return &c.QueueEach }, max: 65535, zero: "1024"},
	},
	{
		Name: "drop-event-subscriptions-after", Group: Answers, Arg: "TIME", Since: first, OpenSM: "drop_event_subscriptions", Live: true,
		Meaning: "time that a subscriber may be missing from the subnet, or leave Reports unanswered, before its subscriptions are dropped",
		value:   span{at: func(c *Config) *time.Duration { return &c.Registry.DropAfter }, zero: "never, like OpenSM without drop_event_subscriptions"},
	},
	{
		Name: "signal", Group: Answers, Arg: "HOW", Since: v020,
		Meaning: "which subscribers to traps 68 and 69 are notified of changed paths: targeted (those that may hold one), repath (of each path), hybrid (all, if a path changed) or wildcard (all, after each change of tables)",
		value: choice[sa.Signal]{func(c *Config) *sa.Signal { return &c.Registry.Signal }, []word[sa.Signal]{
			{"targeted", sa.SignalTargeted}, {"repath", sa.SignalRepath}, {"hybrid", sa.SignalHybrid}, {"wildcard", sa.SignalWildcard},
		}},
	},
	{
		Name: "signal-rate", Group: Answers, Arg: "MOST", Since: v020, Live: true,
		Meaning: "maximum number of Reports about changed paths that are sent in a second",
		value:   number[int]{at: func(c *Config) *int { return &c.Registry.SignalRate }, max: 1000000, zero: "any number"},
	},
	{
		Name: "sm-assigned-guid", Group: Answers, Arg: "BYTE", Since: first, OpenSM: "sm_assigned_guid", Live: true,
		Meaning: "byte after the OUI 00:14:05 in alias GUIDs that the SA assigns; use a different value in each subnet",
		value:   number[uint8]{at: func(c *Config) *uint8 { return &c.Registry.AssignedGUIDByte }, max: 255},
	},
	{
		Name: "virtualization", Group: Virtual, Arg: "WHAT", Since: first, OpenSM: "virt_enabled",
		Meaning: "treatment of ports with virtual ports: on (enable virtualization and bring them up), off (disable it) or ignore (2, 1 and 0 of NVIDIA's virt_enabled)",
		value: choice[sm.VirtualMode]{func(c *Config) *sm.VirtualMode { return &c.SM.Virtualization }, []word[sm.VirtualMode]{
			{"on", sm.VirtualOn}, {"off", sm.VirtualOff}, {"ignore", sm.VirtualIgnore},
		}},
	},
	{
		Name: "vswitch-lids", Group: Virtual, Arg: "WHEN", Since: first,
		Meaning: "when functions of vSwitch adapters get LIDs: dynamic (while they have an interface) or prepopulated (all, from the start, routed with the others)",
		value: choice[bool]{func(c *Config) *bool { return &c.SM.VSwitchPrepopulate }, []word[bool]{
			{"dynamic", false}, {"prepopulated", true},
		}},
	},
	{
		Name: "max-virtual-ports", Group: Virtual, Arg: "MOST", Since: v020, OpenSM: "virt_max_ports_in_process", Live: true,
		Meaning: "maximum number of ports whose virtual ports are brought up concurrently",
		value:   number[int]{at: func(c *Config) *int { return &c.SM.MaxVirtualPorts }, min: 1, max: 65535},
	},
	{
		Name: "vport-away-time", Group: Virtual, Arg: "TIME", Since: v020, Live: true,
		Meaning: "time that a virtual port may be missing, as during a migration, before its multicast memberships end",
		value:   span{at: func(c *Config) *time.Duration { return &c.Registry.MigrateTime }, zero: "they end immediately"},
	},
	{
		Name: "vm-guid-pool", Group: Virtual, Arg: "FIRST-LAST", Since: first,
		Meaning: "pool of port GUIDs for interfaces of VMs that bring none",
		value: special{
			parse: func(c *Config, s string) error {
				if s == "" {
					c.VM = Defaults().VM
					return nil
				}
				from, to, ok := strings.Cut(s, "-")
				a, err := ib.ParseGUID(from)
				b, err2 := ib.ParseGUID(to)
				switch {
				case !ok || err != nil || err2 != nil || a == 0:
					return errRange
				case a > b:
					return errors.New("the first is above the last")
				}
				c.VM.GUIDFirst, c.VM.GUIDLast = a, b
				return nil
			},
			show: poolText, want: "FIRST-LAST, two GUIDs such as 0x0200000000000001-0x02000000ffffffff",
		},
	},
}

var programTable = []Setting{
	{
		Name: "api", Group: Serving, Arg: "ADDR", Since: first,
		Meaning: "address of the API and the status page; empty for none",
		value:   text{func(c *Config) *string { return &c.API.Addr }},
	},
	{
		Name: "api-socket", Group: Serving, Arg: "PATH", Since: first,
		Meaning: "Unix socket of the API, accessible to its owner only: root and the daemon's user may do everything there without a token",
		value:   text{func(c *Config) *string { return &c.API.Socket }},
	},
	{
		Name: "api-host", Group: Serving, Arg: "NAME", Since: first,
		Meaning: "additional name under which clients may address the API; may be repeated",
		value:   list{at: func(c *Config) *[]string { return &c.API.Hosts }},
	},
	{
		Name: "token-file", Group: Serving, Arg: "FILE", Since: first,
		Meaning: "file to which the API's token is written; default: in the runtime directory of this user",
		value:   text{func(c *Config) *string { return &c.API.Token }},
	},
	{
		Name: "api-tls-cert", Group: Serving, Arg: "FILE", Since: first,
		Meaning: "certificate, needed for an address that is not loopback; read again when it changes",
		value:   text{func(c *Config) *string { return &c.API.Certificate }},
	},
	{
		Name: "api-tls-key", Group: Serving, Arg: "FILE", Since: first,
		Meaning: "the certificate's key",
		value:   text{func(c *Config) *string { return &c.API.TLSKey }},
	},
	{
		Name: "api-read-token-file", Group: Serving, Arg: "FILE", Since: first,
		Meaning: "file with a token of the role viewer; then reading needs it, or a named token or a client certificate; addresses that are not loopback require one of these in any case",
		value:   text{func(c *Config) *string { return &c.API.ReadToken }},
	},
	{
		Name: "api-client-ca", Group: Serving, Arg: "FILE", Since: v020,
		Meaning: "certificate of the authority of client certificates (PEM): a client that shows one has the role of its subject in --api-clients",
		value:   text{func(c *Config) *string { return &c.API.ClientCA }},
	},
	{
		Name: "api-clients", Group: Serving, Arg: "FILE", Since: v020,
		Meaning: "roles of client certificates, a line for each: ROLE SUBJECT, such as operator CN=alice,O=Example (docs/access.md); read again when it changes",
		value:   text{func(c *Config) *string { return &c.API.Clients }},
	},
	{
		Name: "webhooks", Group: Serving, Arg: "FILE", Since: v020, Live: true,
		Meaning: "targets that get events as signed webhooks: name, url, secret-file, kinds, level and batch of each, in YAML (docs/events.md)",
		value:   text{func(c *Config) *string { return &c.Files.Webhooks }},
	},
	{
		Name: "api-rate", Group: Serving, Arg: "N", Since: v020, Unit: "requests a second", Live: true,
		Meaning: "average rate of requests of each named token and each client certificate, with bursts of ten seconds' worth",
		value:   number[int]{at: func(c *Config) *int { return &c.API.Rate }, max: 1_000_000, zero: "any number"},
	},
	{
		Name: "ufm-listen", Group: Serving, Arg: "ADDR", Since: first,
		Meaning: "address (HOST:PORT) of the calls that UFM clients make, such as the ufm plugin of ib-kubernetes; default: none",
		value:   text{func(c *Config) *string { return &c.UFM.Addr }},
	},
	{
		Name: "ufm-user", Group: Serving, Arg: "USER", Since: first,
		Meaning: "user of the UFM calls (HTTP Basic)",
		value:   text{func(c *Config) *string { return &c.UFM.User }},
	},
	{
		Name: "ufm-password-file", Group: Serving, Arg: "FILE", Since: first,
		Meaning: "file with the password of the UFM calls",
		value:   text{func(c *Config) *string { return &c.UFM.Password }},
	},
	{
		Name: "ufm-tls-cert", Group: Serving, Arg: "FILE", Since: first,
		Meaning: "certificate of the UFM calls, needed for an address that is not loopback",
		value:   text{func(c *Config) *string { return &c.UFM.Certificate }},
	},
	{
		Name: "ufm-tls-key", Group: Serving, Arg: "FILE", Since: first,
		Meaning: "key of that certificate",
		value:   text{func(c *Config) *string { return &c.UFM.TLSKey }},
	},
	{
		Name: "state", Group: Running, Arg: "DIR", Since: first,
		Meaning: "directory for persistent state (LIDs, M_Keys, the SA key, partitions, multicast groups, services, subscriptions, alias GUIDs, interfaces of VMs); default: nothing is stored",
		value:   text{func(c *Config) *string { return &c.Files.State }},
	},
	{
		Name: "convert-without-copy", Group: Running, Since: v020, Commands: []string{"sm", "up"},
		Meaning: "convert the state file of an older version even if no copy of it as it was can be kept beside it, as on a full disk",
		value:   boolean{func(c *Config) *bool { return &c.Files.ConvertWithoutCopy }},
	},
	{
		Name: "node-names", Group: Running, Arg: "FILE", Since: v020, OpenSM: "node_name_map_name", Live: true,
		Meaning: "file with a node GUID and a name a line, in the format of OpenSM's node-name-map: names in the API, the page, the log, metrics, dumps and the QoS policy; the SA answers with the nodes' own descriptions",
		value:   text{func(c *Config) *string { return &c.Files.NodeNames }},
	},
	{
		Name: "dump", Group: Running, Arg: "DIR", Since: first, OpenSM: "dump_files_dir",
		Meaning: "directory for OpenSM-style dump files, written when the subnet is up and when routes change",
		value:   text{func(c *Config) *string { return &c.Files.Dump }},
	},
	{
		Name: "opensm-compatible", Group: Running, Arg: "DIR", Since: v020, Bare: "/", Commands: []string{"sm"},
		Meaning: "keep files that scripts for OpenSM read, below this directory: var/cache/opensm/guid2lid, var/log/opensm-subnet.lst, and var/log/opensm.log with the lines Entering MASTER state and SUBNET UP, which SIGUSR1 opens again; without an argument /",
		value:   text{func(c *Config) *string { return &c.Files.OpenSM }},
	},
	{
		Name: "log-level", Group: Running, Arg: "LEVEL", Since: first, OpenSM: "log_flags", Live: true,
		Meaning: "minimum level of log messages",
		value: choice[int]{func(c *Config) *int { return &c.Log.Level }, []word[int]{
			{"debug", -4}, {"info", 0}, {"warn", 4}, {"error", 8},
		}},
	},
	{
		Name: "log-format", Group: Running, Arg: "FORM", Since: first,
		Meaning: "form of the log; auto: where standard error is the journal of systemd, entries with fields, otherwise text (docs/events.md)",
		value:   choice[LogForm]{func(c *Config) *LogForm { return &c.Log.Form }, []word[LogForm]{{"auto", LogAuto}, {"text", LogText}, {"json", LogJSON}}},
	},
	{
		Name: "flight-recorder", Group: Running, Since: v020, Commands: []string{"sm", "up"}, Live: true,
		Meaning: "record what the process does, so that a support bundle has an execution trace of the last seconds; under full load the SA answers some percent less (docs/install.md)",
		value:   boolean{func(c *Config) *bool { return &c.Log.Flight }},
	},
	{
		Name: "syslog", Group: Running, Arg: "SERVER", Since: v020, Commands: []string{"sm", "up"},
		Meaning: "also send the log to a syslog server: tcp://HOST:PORT, or tls://HOST:PORT with a certificate that this machine trusts (RFC 5424)",
		value:   text{func(c *Config) *string { return &c.Log.Syslog }},
	},
}
