package settings

import (
	"time"

	"heddle/congestion"
	"heddle/drain"
	"heddle/ib"
	"heddle/perf"
	"heddle/perf/dftree"
	"heddle/route/engine/auto"
	"heddle/sa"
	"heddle/sm"
	"heddle/vm"
)

// Config is the result of all settings: the configurations of the cores, and
// those of the program.
type Config struct {
	SM       sm.Config
	SA       sa.Options
	Registry sa.Config
	VM       vm.Config
	// Perf configures the performance manager; with Period 0 there is none.
	Perf perf.Config
	// DFTree says what becomes of flows to hot spots.
	DFTree dftree.Mode
	// Congestion configures the congestion control manager; with the mode Off there is none.
	Congestion congestion.Config

	// Port is the port through which to manage the subnet; Once releases it when
	// the subnet is up.
	Port string
	Once bool
	// Window is the maximum number of SMPs in flight; 0: suited to the port.
	Window int
	// ClaimWait is how long the start waits for a port claimed by another manager;
	// 0: not at all.
	ClaimWait time.Duration
	// Queue is the maximum number of waiting SA requests, QueueEach that of one
	// LID.
	Queue, QueueEach int

	Engines Engines
	SAKey   SAKey
	Secrets Secrets
	Files   Files
	Cabling Cabling
	Actions drain.Config // of rules of findings
	API     API
	UFM     UFM
	Log     Log
	HA      HA
	Etcd    Etcd
}

// Engines choose routing engines and name the files that direct them.
type Engines struct {
	Names       []string
	VFTreeLanes int

	Roots, IDs, HopWeights, PortOrder     string
	RoutingOrder, Unbalanced              string
	ComputeNodes, IONodes, TorusConfig    string
	ForwardingTables, PathSL, SLToVLTable string
}

// SAKey makes an SA request trusted.
type SAKey struct {
	Given bool // otherwise a random one
	Key   uint64
}

// Files are those that the daemon reads and writes.
type Files struct {
	Partitions, QoSPolicy, PrefixRoutes string // read again on SIGHUP
	NodeNames                           string
	Webhooks                            string
	Thresholds                          string // read again on SIGHUP
	SADump, Groups                      string
	State, Dump                         string // directories
	OpenSM                              string // directory; empty: none of OpenSM's files is kept
	ConvertWithoutCopy                  bool   // of the state file, if it has an older format
}

// API is where the HTTP API is served.
type API struct {
	Addr, Socket        string
	Hosts               []string
	Token, ReadToken    string // files
	Certificate, TLSKey string // files
	ClientCA, Clients   string // files
	Rate                int    // requests a second of each token; 0: any number
}

// Secrets are files with the values of settings.
type Secrets struct{ SMKey, MKey, SAKey, CCKey string }

// UFM is where the calls of UFM clients are answered.
type UFM struct {
	Addr, User                    string
	Password, Certificate, TLSKey string // files
}

// Log configures logging.
type Log struct {
	Level  int // as log/slog counts: -4 debug, 0 info, 4 warn, 8 error
	Form   LogForm
	Syslog string // the server, or empty
	Flight bool   // the flight recorder runs
}

// LogForm is the form of the log.
type LogForm uint8

// Forms of the log.
const (
	LogAuto LogForm = iota // the journal with fields where the program writes to it, otherwise text
	LogText
	LogJSON
)

// HotSpots says what becomes of flows to hot spots with all settings together: with --once, or
// without --perf, nobody finds any.
func (c *Config) HotSpots() dftree.Config {
	h := dftree.Config{Mode: c.DFTree, QoS: c.SM.QoS || c.Files.QoSPolicy != ""}
	if c.Once || c.Perf.Period == 0 {
		h.Mode = dftree.Off
	}
	return h
}

// Defaults of the program's own settings.
const (
	DefaultAPI       = "127.0.0.1:7480"
	defaultRate      = 200
	DefaultQueue     = 8192
	DefaultQueueEach = 1024
	// DefaultClaimWait is more than any simulator takes to notice that a process was killed.
	DefaultClaimWait = 5 * time.Second
)

// Defaults returns the configuration without any setting.
func Defaults() Config {
	counters := perf.Defaults()
	counters.Period = 0 // as with OpenSM: whoever upgrades gets no traffic that was not asked for
	control := congestion.Defaults()
	control.Mode = congestion.Off // the same
	c := Config{
		Perf:       counters,
		Congestion: control,
		SM:         sm.Defaults(),
		SA:         sa.Options{VirtHopLimit: sa.DefaultVirtHopLimit},
		Registry:   sa.Defaults(),
		VM:         vm.Defaults(),
		ClaimWait:  DefaultClaimWait,
		Queue:      DefaultQueue,
		QueueEach:  DefaultQueueEach,
		Engines:    Engines{Names: []string{"auto"}},
		API:        API{Addr: DefaultAPI, Rate: defaultRate},
		UFM:        UFM{User: "admin"},
		Etcd:       Etcd{Wait: defaultEtcdWait},
		Actions:    drain.Defaults(),
	}
	return c
}

// EngineNames are the routing engines that a setting may name, besides auto,
// which is AutoChain.
func EngineNames() []string {
	return []string{"minhop", "updn", "dnup", "ftree", "vftree", "dor", "torus", "sssp", "dfsssp", "lash", "nue", "file"}
}

// AutoChain is the meaning of the engine auto: the names of auto.Engines.
func AutoChain() (names []string) {
	for _, e := range auto.Engines() {
		names = append(names, e.Name())
	}
	return names
}

// poolText is the text form of the GUID pool.
func poolText(c *Config) string {
	return "0x" + hex16(c.VM.GUIDFirst) + "-0x" + hex16(c.VM.GUIDLast)
}

func hex16(g ib.GUID) string {
	const digits = "0123456789abcdef"
	var b [16]byte
	for i := range b {
		b[i] = digits[g>>(60-4*i)&15]
	}
	return string(b[:])
}
