// Package arch tests the import rules of ARCHITECTURE.md, and that pure packages
// stay pure.
package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "heddle"

// rule says what a package, and every package below it, may import of this
// module. Paths are relative to the module; "x/..." means x and all below.
type rule struct {
	pkg    string
	may    []string
	pure   bool
	reason string
}

// rules are looked up by the longest matching pkg.
var rules = []rule{
	{"ib", []string{"ib/..."}, true, "wire formats are for any tool, so they depend on nothing"},
	{"fabric", []string{"ib/..."}, true, "graphs and netlists use only wire values"},
	{"fabric/hosts", []string{"fabric", "ib/..."}, true, "which adapters are in one machine is a function of a fabric"},
	{"fabric/cabling", []string{"fabric", "ib/..."}, true, "a plan of cables is compared with a fabric, wherever both come from"},
	{"fabric/slurm", []string{"fabric", "fabric/hosts", "ib/..."}, true, "a scheduler's view is a function of a fabric"},
	{"mad", []string{"ib/..."}, true, "the transaction engine depends on MADs, not on managers or devices"},
	{"agent", []string{"agent/generation", "mad", "ib/..."}, true, "a host's path cache asks any SA, so it imports no manager; real and simulated hosts run it"},
	{"agent/generation", []string{"ib/..."}, true, "a real cache and simulated hosts keep up with changes by the same rules"},
	{"agent/acm", []string{"ib/..."}, true, "ibacm's protocol consists of wire values"},
	{"agent/rdmanl", []string{"ib/..."}, true, "the kernel's questions consist of wire values"},
	{"agent/live", []string{"agent/...", "mad", "ib/...", "internal/version"}, false, "the shell of the path cache: the caller opens the ports"},
	{"route", []string{"fabric", "ib/..."}, true, "tables are values over a graph"},
	{"route/check", []string{"route", "route/cdg", "fabric", "ib/..."}, true, "the verifier must not import any engine"},
	{"route/mcast", []string{"route", "route/cdg", "fabric", "ib/..."}, true, "trees are fitted to tables of any engine"},
	{"route/preview", []string{"route", "route/check", "fabric", "ib/..."}, true, "a preview is a function of tables of any engine"},
	{"route/transition", []string{"route", "route/cdg", "fabric", "ib/..."}, true, "a plan is a function of tables of any engine"},
	{"route/move", []string{"route", "route/cdg", "route/check", "route/transition", "fabric", "ib/..."}, true, "a move copies entries of any engine's tables and verifies the result"},
	{"route/cdg", []string{"route", "fabric", "ib/..."}, true, "dependencies depend on tables, not on engines or the verifier"},
	{"route/engine", []string{"route", "route/engine", "fabric", "ib/..."}, true, "an engine must not import another engine or the verifier"},
	{"route/engine/dnup", []string{"route/engine/updn"}, true, "dnup is updn upside down, and needs nothing else"},
	{"route/engine/auto", []string{"route", "route/engine/ftree", "route/engine/minhop", "route/engine/updn"}, true, "the default chain imports engines; they do not import it"},
	{"route/engine/all", []string{"route", "route/engine/..."}, true, "the list imports engines; they do not import it"},
	{"route/engine/layer", []string{"route", "fabric", "ib/..."}, true, "shared by engines: layers of any engine's paths"},
	{"route/engine/spt", []string{"route"}, true, "shared by engines: trees over any network"},
	{"route/engine/sssp", []string{"route", "route/engine", "route/engine/layer", "route/engine/spt", "fabric", "ib/..."}, true, "an engine must not import another engine or the verifier"},
	{"route/engine/lash", []string{"route", "route/engine", "route/engine/layer", "route/engine/spt", "fabric", "ib/..."}, true, "an engine must not import another engine or the verifier"},
	{"route/engine/dor", []string{"route", "route/engine/grid", "fabric", "ib/..."}, true, "dor shares the grid with torus, and imports no other engine or the verifier"},
	{"route/engine/torus", []string{"route", "route/engine/grid", "fabric", "ib/..."}, true, "torus shares the grid with dor, and imports no other engine or the verifier"},
	{"route/engine/nue", []string{"route", "fabric", "ib/..."}, true, "nue shares nothing with other engines and does not import the verifier"},
	{"route/engine/file", []string{"route", "route/osmdump", "fabric", "ib/..."}, true, "the caller reads the dumps"},
	{"route/engine/vftree", []string{"route", "route/engine", "route/engine/ftree", "fabric", "ib/..."}, true, "vftree adds lanes to the fat tree of ftree"},
	{"route/osmdump", []string{"route", "fabric", "ib/..."}, true, "dump files are a view of tables"},
	{"route/osmconf", []string{"route", "ib/..."}, true, "input files are converted to options"},
	{"drain", []string{"subnet", "perf/findings", "route/preview", "store", "ib/..."}, true, "what rules and operators do with links is decided on published state and findings, whoever carries it out"},
	{"opensm", []string{"settings", "congestion", "store", "ib/..."}, true, "OpenSM's files are converted to settings and entries of a store; the caller opens them"},
	{"partition", []string{"ib/..."}, true, "P_Key assignments are values, independent of their programming"},
	{"partition/preview", []string{"partition", "sa", "subnet", "vm", "ib/..."}, true, "a preview is a function of published state, whoever asks for it"},
	{"qos", []string{"partition", "ib/..."}, true, "a policy uses wire values and does not depend on the SA"},
	{"subnet", []string{"partition", "route", "fabric", "ib/..."}, true, "the published state does not depend on its producers"},
	{"subnet/mirror", []string{"subnet", "partition", "route", "fabric", "ib/..."}, true, "a standby's copy of the published state: who sends it and who uses it is above"},
	{"subnet/checkpoint", []string{"subnet", "subnet/mirror", "store/journal", "ib/..."}, false, "an edge: the file of what was published last; who writes and uses it is above"},
	{"incident", []string{"subnet", "ib/..."}, true, "which facts have one cause is a function of facts and snapshots, whoever tells them"},
	{"subnet/wiring", []string{"subnet", "ib/..."}, true, "what is where is a value, independent of who stores or draws it"},
	{"subnet/atlas", []string{"subnet/wiring", "route/engine/grid", "fabric", "ib/..."}, true, "maps are a function of a wiring"},
	{"subnet/past", []string{"subnet/wiring", "store/ring", "ib/..."}, false, "stored wirings: records in a ring of files"},
	{"store", []string{"ib/..."}, true, "persistent state consists of wire values"},
	{"store/journal", []string{"store", "ib/..."}, true, "entries are values, independent of who writes or copies them"},
	{"store/ring", nil, false, "an edge: files of records, whatever these are"},
	{"access", []string{"store", "store/journal", "ib/..."}, true, "who may do what is decided apart from HTTP and sockets"},
	{"replica", []string{"store", "store/journal", "mad", "ib/..."}, true, "who may write is decided apart from disks, streams and the fabric"},
	{"replica/wire", []string{"replica", "store", "store/journal", "mad", "ib/..."}, true, "what managers of a pair send each other, independent of how it goes"},
	{"replica/relay", []string{"mad", "ib/..."}, true, "which queries are passed on is decided apart from streams and ports"},
	{"replica/live", []string{"replica", "replica/relay", "replica/wire", "subnet", "subnet/mirror", "store", "store/journal", "mad", "ib/..."}, false, "the shell of a pair: disk, streams and port; the caller opens the port and runs the managers"},
	{"replica/members", []string{"mad", "replica", "replica/wire", "store/journal", "subnet", "subnet/mirror", "ib/..."}, false, "the streams between managers with one state in etcd; who runs managers is above"},
	{"store/backup", []string{"store", "store/journal", "ib/..."}, true, "text of a state, independent of the file it was in"},
	{"store/boltdb", []string{"store", "store/journal", "ib/..."}, false, "an edge: the file of a store"},
	{"store/etcd", []string{"store", "store/journal", "ib/..."}, false, "an edge: the cluster of a store; who is master is decided elsewhere"},
	{"sm", []string{"sm/...", "subnet", "partition", "store", "route/...", "mad", "fabric", "ib/..."}, true, "the manager is a core and imports no edge"},
	{"sm/absent", []string{"sm/env", "sm/lid", "sm/notice", "sm/topo", "sm/vport", "sm/work", "subnet", "mad", "ib/..."}, true, "absent nodes: discovery and light sweeps report silence, and decide nothing about it"},
	{"sm/agenda", []string{"sm/env", "sm/notice", "subnet", "mad", "ib/..."}, true, "what the next sweep is to do is collected from all parts, independent of how it is done"},
	{"sm/discover", []string{"sm/absent", "sm/agenda", "sm/env", "sm/notice", "sm/topo", "sm/work", "subnet", "mad", "ib/..."}, true, "discovery reads the subnet; keys, links and the sweep around it are behind interfaces"},
	{"sm/damp", []string{"mad", "ib/..."}, true, "flapping links are identified by ports, independent of discovery"},
	{"sm/election", []string{"subnet", "ib/..."}, true, "election rules depend only on the managers' reports"},
	{"sm/env", []string{"sm/config", "sm/notice", "sm/topo", "sm/work", "store", "subnet", "mad", "ib/..."}, true, "the common environment must not depend on the parts"},
	{"sm/env/envtest", []string{"sm/env", "sm/config", "sm/notice", "sm/topo", "sm/work", "store", "subnet", "fabric", "mad", "ib/..."}, false, "test support: one part alone"},
	{"sm/forward", []string{"subnet", "route/...", "mad", "fabric", "ib/..."}, true, "what switches hold is known by blocks, independent of reading and writing"},
	{"sm/group", []string{"sm/env", "sm/forward", "sm/job", "sm/notice", "sm/work", "subnet", "route/...", "mad", "fabric", "ib/..."}, true, "groups are ports and trees, independent of routing and writing"},
	{"sm/guid", []string{"sm/env", "sm/notice", "sm/topo", "sm/work", "subnet", "mad", "ib/..."}, true, "alias GUIDs: who asks for them, and who depends on them, is behind interfaces"},
	{"sm/history", []string{"route/...", "mad", "fabric", "ib/..."}, true, "what packets remember are tables, whoever wrote them"},
	{"sm/hurry", []string{"sm/absent", "sm/env", "sm/notice", "sm/topo", "sm/work", "subnet", "mad", "ib/..."}, true, "hurried requests: absent nodes say who is silent, and the phase says nothing more than its time"},
	{"sm/install", []string{"sm/config", "sm/env", "sm/forward", "sm/history", "sm/job", "sm/notice", "sm/topo", "sm/work", "subnet", "route/...", "mad", "fabric", "ib/..."}, true, "tables are written in stages, independent of what they are for"},
	{"sm/job", []string{"sm/config", "sm/forward", "sm/notice", "subnet", "route/...", "fabric", "ib/..."}, true, "a job is a pure function of values"},
	{"sm/lane", []string{"sm/config", "sm/env", "sm/forward", "sm/notice", "sm/topo", "sm/work", "subnet", "route/...", "mad", "ib/..."}, true, "SL-to-VL and arbitration tables: what they are for is behind interfaces"},
	{"sm/lid", []string{"sm/notice", "sm/topo", "subnet", "store", "fabric", "ib/..."}, true, "LIDs are assigned by a function of a table and a discovered subnet"},
	{"sm/light", []string{"sm/env", "sm/forward", "sm/notice", "sm/topo", "sm/work", "subnet", "route", "mad", "ib/..."}, true, "light sweeps ask; what to read then is for discovery to decide"},
	{"sm/linkmgr", []string{"sm/config", "sm/damp", "sm/env", "sm/notice", "sm/topo", "sm/work", "store", "subnet", "mad", "ib/..."}, true, "ports and links: tables, partitions and discovery are behind interfaces"},
	{"sm/mkey", []string{"sm/env", "sm/topo", "store", "subnet", "ib/..."}, true, "M_Keys are those of ports, as read and as stored, independent of who sets them"},
	{"sm/lidmove", []string{"sm/config", "sm/env", "sm/install", "sm/job", "sm/notice", "sm/topo", "sm/work", "route/...", "mad", "fabric", "ib/..."}, true, "LIDs are moved by tables: who has them is behind interfaces"},
	{"sm/peek", []string{"sm/env", "sm/notice", "sm/topo", "sm/work", "subnet", "mad", "ib/..."}, true, "peeks find faults; what a sweep does about them is behind an interface"},
	{"sm/pkey", []string{"mad", "ib/..."}, true, "what P_Key tables hold is known by blocks, whoever reads them"},
	{"sm/pkeymgr", []string{"sm/env", "sm/config", "sm/notice", "sm/pkey", "sm/topo", "sm/vport", "sm/work", "partition", "store", "subnet", "mad", "ib/..."}, true, "P_Keys: ports and virtual ports are those of others, which interfaces give"},
	{"sm/placement", []string{"sm/env", "sm/guid", "sm/lid", "sm/notice", "sm/topo", "sm/vport", "store", "subnet", "route/move", "fabric", "mad", "ib/..."}, true, "placements: routing, tables and snapshots are behind interfaces"},
	{"sm/routing", []string{"sm/env", "sm/config", "sm/forward", "sm/install", "sm/job", "sm/notice", "sm/topo", "subnet", "route/...", "mad", "fabric", "ib/..."}, true, "what is routed and when: groups, LIDs and ports are behind interfaces"},
	{"sm/tenure", []string{"sm/env", "sm/notice", "store", "subnet", "ib/..."}, true, "whether the store can know what devices hold is independent of what they hold"},
	{"sm/takeover", []string{"sm/env", "sm/lid", "sm/topo", "sm/work", "subnet", "route/...", "mad", "ib/..."}, true, "a takeover checks a snapshot, moves the manager's LID and names ports to tell; keys and Sets are behind interfaces"},
	{"sm/topo", []string{"sm/forward", "sm/pkey", "subnet", "fabric", "ib/..."}, true, "the discovered subnet is a value, independent of the sweep"},
	{"sm/trap", []string{"sm/env", "sm/notice", "sm/topo", "sm/work", "subnet", "mad", "ib/..."}, true, "traps ask for sweeps and reads; what these do is behind interfaces"},
	{"sm/vport", []string{"sm/env", "sm/config", "sm/guid", "sm/notice", "sm/pkey", "sm/topo", "sm/work", "subnet", "mad", "ib/..."}, true, "virtual ports: other parts supply their contents through interfaces"},
	{"sa", []string{"sa/holder", "sa/pathlog", "subnet", "partition", "qos", "store", "route/...", "mad", "fabric", "ib/..."}, true, "answers depend on the snapshot, not on the manager"},
	{"sa/holder", []string{"ib/..."}, true, "who holds which paths is known by LIDs, whoever gave the answers"},
	{"sa/pathlog", []string{"subnet", "partition", "route", "fabric", "ib/..."}, true, "which paths changed is a function of snapshots"},
	{"sa/osmsa", []string{"sa", "store", "subnet", "mad", "ib/..."}, true, "another manager's dump is converted to SA records"},
	{"vm", []string{"subnet", "partition", "store", "mad", "ib/..."}, true, "vm decides addresses and locations, sm carries them out, and neither imports the other"},
	{"vmdriver", []string{"mad", "ib/..."}, true, "a driver of hypervisors is a client of any manager with this API, so it imports none"},
	{"vmdriver/live", []string{"vmdriver", "api", "mad", "ib/..."}, false, "the shell of the driver: the manager over HTTP, hypervisors behind an interface"},
	{"sim/hypervisor/guests", []string{"sim", "sim/hypervisor/precopy", "vmdriver", "mad", "fabric", "ib/..."}, true, "simulated hypervisors obey a driver, and know no manager"},
	{"shell", []string{"sm", "sa", "vm", "perf", "perf/hotspot", "perf/dftree", "congestion", "subnet", "partition", "store", "mad", "ib/..."}, true, "the order of effects is the same in real and in virtual time, so shell has no edge"},
	{"perf", []string{"subnet", "mad", "ib/..."}, true, "counters are read at any agent; what they mean is for other cores to say, and nothing is written"},
	{"congestion", []string{"subnet", "mad", "ib/..."}, true, "settings are a function of a snapshot and of what users give; who shows them is above"},
	{"perf/findings", []string{"perf", "subnet", "fabric/...", "mad", "ib/..."}, true, "findings are a function of rounds; who reads counters and who shows findings is behind them"},
	{"settings", []string{"drain", "sm", "sa", "vm", "perf", "perf/dftree", "fabric/cabling", "congestion", "route/engine/auto", "ib/..."}, true, "the table of settings depends on the cores' configurations, not on flags or files"},
	{"perf/hotspot", []string{"perf", "subnet", "fabric", "mad", "ib/..."}, true, "hot spots are a function of rounds; what is done about them is for others"},
	{"perf/dftree", []string{"perf/hotspot", "subnet", "route", "route/cdg", "fabric", "ib/..."}, true, "which paths are to be slow is a function of hot spots and of what is routed; the SA tells hosts"},
	{"sim", []string{"sim/dataplane", "traffic", "traffic/inject", "mad", "fabric", "ib/..."}, true, "the simulated subnet must not depend on a manager"},
	{"sim/dataplane", []string{"sim/dataplane/...", "fabric", "ib/..."}, true, "packets know the devices' tables through an interface that sim implements"},
	{"sim/dataplane/lockstep", nil, true, "workers that wait for each other know nothing of what they do"},
	{"sim/host/rc", []string{"sim/dataplane", "ib/..."}, true, "a connection is tested with any channel; of the data plane it takes times and payloads"},
	{"sim/host/adapter", []string{"sim/host/rc", "sim/dataplane", "ib/..."}, true, "an adapter knows its port alone; what its host does with it is above"},
	{"sim/host/program", []string{"sim/host/adapter", "sim/host/rc", "sim/dataplane", "ib/..."}, true, "programs use connections, and know neither managers nor datagrams"},
	{"sim/host/saclient", []string{"agent/generation", "mad", "ib/..."}, true, "a client of the SA knows datagrams, and no port or fabric"},
	{"sim/host/repath", []string{"agent/generation", "sim/host/adapter", "sim/host/rc", "sim/host/saclient", "mad", "ib/..."}, true, "a handler takes notices and changes queue pairs; managers and ports are behind interfaces"},
	{"sim/host/ipoib", []string{"sim/host/saclient", "mad", "ib/..."}, true, "an interface takes frames and notices; what carries its datagrams is behind an interface"},
	{"sim/host/comm", []string{"sim/host/adapter", "sim/host/rc", "mad", "ib/..."}, true, "connections are agreed on by datagrams; ports and the SA are the caller's"},
	{"sim/host/rds", []string{"mad"}, true, "when ends connect again is a matter of times and draws; requests and queries are the caller's"},
	{"sim/hypervisor", []string{"sim/hypervisor/...", "sim/host/...", "sim/dataplane", "ib/..."}, true, "a migration decides; functions, managers and the memory's path are behind an interface"},
	{"sim/hypervisor/suspend", []string{"sim/host/adapter", "sim/host/rc", "sim/dataplane", "ib/..."}, true, "processes and peers suspend connections, and know nothing of what migrates"},
	{"sim/hypervisor/precopy", nil, true, "the copy of a memory is pages and times: whoever moves the bytes, in whichever time"},
	{"sim/live", []string{"sim", "mad", "fabric", "ib/..."}, false, "an edge of the simulator"},
	{"sim/ibsimd", []string{"sim", "sim/live", "mad", "fabric", "ib/..."}, false, "an edge of the simulator"},
	{"sim/umadfs", []string{"sim", "sim/live", "sim/umadfs/kernel", "mad", "fabric", "ib/...", "internal/umadabi"}, false, "an edge of the simulator"},
	{"sim/umadfs/kernel", []string{"mad", "ib/...", "internal/umadabi"}, false, "the emulated kernel depends on a wire, not on the subnet"},
	{"traffic", []string{"fabric", "ib/..."}, true, "patterns say who sends what to whom, and know no routes"},
	{"traffic/inject", []string{"traffic", "sim/dataplane", "ib/..."}, true, "patterns become streams of packets"},
	{"traffic/maxmin", []string{"traffic", "route", "fabric", "ib/..."}, true, "rates are a function of a demand and of tables of any engine"},
	{"traffic/study", []string{"traffic/...", "route/...", "sim/dataplane", "fabric", "ib/..."}, true, "a question is answered by values; files and terminals are the command's"},
	{"transport", []string{"mad", "ib/..."}, false, "an edge carries MADs and imports nothing above them"},
	{"transport/umad", []string{"transport/umad/...", "mad", "ib/...", "internal/umadabi"}, false, "an edge carries MADs and imports nothing above them"},
	{"api", []string{"api/kinds", "api/listen", "subnet", "sm", "vm", "partition", "route/...", "fabric", "fabric/hosts", "fabric/slurm", "ib/...", "internal/version", "web", "access", "subnet/atlas"}, false, "the API reads snapshots and sends commands"},
	{"api/show", []string{"fabric", "fabric/cabling", "fabric/hosts", "fabric/slurm", "api", "sm", "sa", "vm", "perf", "mad", "perf/findings", "perf/hotspot", "perf/dftree", "congestion", "subnet", "partition", "partition/preview", "ib/...", "internal/version", "subnet/atlas", "subnet/past", "subnet/wiring", "route"}, false, "views are functions of published state"},
	{"api/listen", nil, false, "connections are bounded whatever is served over them"},
	{"api/kinds", nil, true, "names, whoever has the events"},
	{"api/ufm", []string{"api", "partition", "vm", "ib/...", "internal/version"}, false, "the calls of another product: what they change is behind an interface"},
	{"api/exporter", []string{"perf", "ib/..."}, false, "counters are written from a round, as a stream; who serves them is above"},
	{"api/metrics", []string{"drain", "sm", "sa", "vm", "perf", "perf/hotspot", "perf/dftree", "congestion", "perf/findings", "fabric/cabling", "subnet", "ib/...", "internal/version"}, false, "metrics are a view of values, independent of their source"},
	{"web", []string{"internal/uplot"}, false, "the page is static files"},
	{"daemon/mailbox", []string{"mad"}, false, "packets from one goroutine to another"},
	{"daemon/recent", []string{"api", "api/metrics", "api/show", "sm"}, false, "what the manager did last is a view of its reports"},
	{"daemon/eventlog", []string{"api", "incident", "logs", "store/ring"}, false, "events are kept, whatever they say"},
	{"daemon", []string{"daemon/eventlog", "daemon/mailbox", "daemon/recent", "drain", "api/...", "web", "incident", "settings", "shell", "sm", "sa", "sa/holder", "vm", "perf", "perf/findings", "perf/hotspot", "perf/dftree", "congestion", "subnet", "partition", "partition/preview", "qos", "store", "store/journal", "store/backup", "store/ring", "route/...", "mad", "fabric", "fabric/slurm", "ib/...", "internal/version", "fabric/cabling", "logs", "subnet/atlas", "subnet/past", "subnet/wiring"}, false, "the shell of the managers: the caller opens the ports"},
	{"logs", nil, false, "an edge: the log, to the journal and to syslog servers; whose lines they are does not matter"},
	{"webhook", []string{"api", "api/kinds"}, false, "an edge: events by HTTP to programs; whose events they are is behind an interface"},
	{"daemon/process", []string{"api", "api/metrics", "daemon", "daemon/eventlog", "shell", "sm", "sa", "vm", "subnet", "subnet/checkpoint", "replica", "replica/live", "replica/wire", "store", "store/journal", "store/backup", "mad", "ib/...", "internal/version", "replica/members", "access", "store/ring"}, false, "the phases of a process: who may run managers is behind an interface"},
	{"flood", []string{"mad", "ib/..."}, true, "the load generator must work with any SA, so it imports no manager; flood/live runs it"},
	{"flood/live", []string{"flood", "mad", "ib/..."}, false, "the shell of flood: the caller opens the ports"},
	{"flood/figure", []string{"flood", "report", "mad"}, false, "measurements as text and figures"},
	{"lab", []string{"agent", "incident", "shell", "sm", "sa", "vm", "perf", "perf/hotspot", "perf/dftree", "congestion", "subnet", "partition", "partition/preview", "qos", "store", "route/...", "sim", "sim/dataplane", "sim/host/...", "sim/hypervisor/...", "mad", "fabric", "ib/..."}, false, "managers and simulator in one virtual time"},
	{"report", []string{"internal/uplot"}, false, "a report is text and figures; it imports no manager"},
	{"lab/manager2003", []string{"sim", "mad", "route/...", "fabric", "ib/..."}, false, "the manager of the 2003 report stands on the simulator, not on ours"},
	{"lab/experiment", []string{"agent", "lab", "lab/experiment/...", "lab/manager2003", "report", "traffic", "traffic/study", "flood", "flood/figure", "sm", "sa", "vm", "congestion", "subnet", "partition", "qos", "mad", "route/...", "sim", "sim/dataplane", "sim/host/...", "sim/hypervisor/...", "fabric", "ib/..."}, false, "an experiment drives the lab and reports"},
	{"lab/experiment/bed", []string{"lab", "report", "sm", "sa", "route/...", "sim", "sim/dataplane", "fabric", "ib/..."}, false, "what experiments share does not depend on any of them"},
	{"lab/experiment/dftree", []string{"lab", "lab/experiment/bed", "report", "sm", "sa", "perf", "perf/dftree", "perf/hotspot", "mad", "route", "route/engine/...", "sim", "sim/dataplane", "sim/host/...", "fabric", "ib/..."}, false, "an experiment stands on what experiments share, not on others"},
	{"lab/experiment/congestion", []string{"lab/experiment/bed", "report", "congestion", "route", "route/engine/...", "sim/dataplane", "fabric", "ib/..."}, false, "an experiment stands on what experiments share, not on others"},
	{"cmd/heddle", []string{"..."}, false, "wiring may import everything"},
	{"cmd/heddle-etcd", []string{"cmd/heddle-etcd/..."}, false, "a module of its own: a data base is no part of a subnet manager"},
	{"examples", []string{"sim", "mad", "route/...", "fabric", "ib/..."}, false, "examples for other programs: public packages, and the simulator"},
	{"internal", []string{"..."}, false, "tools and test support"},
	{"internal/bench/rawibsim", []string{"ib/..."}, false, "a client that measures the other end has little work of its own"},
	{"internal/bench/testbed", []string{"internal/bench/rawibsim", "internal/proc", "fabric", "ib/..."}, false, "programs, simulators and tables, whatever is measured"},
	{"internal/bench/pair", []string{"internal/bench/testbed", "api", "store/boltdb", "store/journal", "ib/..."}, false, "two managers as processes, whatever is measured"},
	{"internal/bench/bringup", []string{"internal/bench/testbed"}, false, "a part of the benchmark uses no other part"},
	{"internal/bench/counters", []string{"internal/bench/testbed", "flood"}, false, "a part of the benchmark uses no other part"},
	{"internal/bench/events", []string{"internal/bench/testbed", "flood", "daemon", "daemon/eventlog", "route/engine/auto", "sa", "sm", "store", "store/ring", "subnet", "transport/ibsim", "webhook", "api"}, false, "a part of the benchmark uses no other part"},
	{"internal/bench/joins", []string{"internal/bench/pair", "internal/bench/testbed", "transport/ibsim", "api", "sim", "sim/ibsimd", "sim/live", "mad", "fabric", "ib/..."}, false, "a part of the benchmark uses no other part"},
	{"internal/bench/moves", []string{"internal/bench/testbed"}, false, "a part of the benchmark uses no other part"},
	{"internal/bench/packets", []string{"internal/bench/testbed"}, false, "a part of the benchmark uses no other part"},
	{"internal/bench/repair", []string{"internal/bench/testbed", "lab", "fabric"}, false, "a part of the benchmark uses no other part"},
	{"internal/bench/routing", []string{"internal/bench/testbed"}, false, "a part of the benchmark uses no other part"},
	{"internal/bench/saload", []string{"internal/bench/rawibsim", "internal/bench/testbed", "flood", "ib/..."}, false, "a part of the benchmark uses no other part"},
	{"internal/bench/simrate", []string{"internal/bench/rawibsim", "internal/bench/testbed"}, false, "a part of the benchmark uses no other part"},
	{"internal/bench/stampede", []string{"internal/bench/rawibsim", "internal/bench/testbed", "ib/..."}, false, "a part of the benchmark uses no other part"},
	{"internal/bench/takeover", []string{"internal/bench/pair", "internal/bench/testbed", "api", "store", "store/boltdb", "subnet/checkpoint", "sim", "sim/ibsimd", "sim/live", "mad", "fabric", "ib/..."}, false, "a part of the benchmark uses no other part"},
	{"internal/heap", nil, true, "a queue of any values"},
	{"internal/uplot", nil, false, "files of a library"},
	{"internal/pages", nil, true, "a list of any values"},
	{"internal/toposort", nil, true, "an order of any graph"},
	{"internal/nearest", nil, true, "names of any things"},
	{"internal/plural", nil, true, "numbers of any things"},
}

// algorithms are pure packages that import nothing of this module; every package may import them.
var algorithms = []string{"internal/heap", "internal/nearest", "internal/pages", "internal/plural", "internal/toposort"}

// testSupport are packages that no program may contain.
var testSupport = []string{
	"internal/abitest", "internal/enginetest", "internal/etcdmodel", "internal/etcdtest", "internal/fabrictest",
	"internal/faultdisk", "internal/ibtools", "internal/installtest", "internal/jointest", "internal/madtest", "internal/need",
	"internal/reporttest", "internal/routetest", "internal/settingstest", "internal/snaptest", "internal/storetest",
	"internal/vmtest", "internal/wiretest", "sm/env/envtest",
}

// impure are the imports that a pure package must not have, with the reason.
var impure = map[string]string{
	"os":        "files and the environment are an edge's business",
	"net":       "sockets are an edge's business",
	"net/http":  "sockets are an edge's business",
	"log":       "a core emits typed notices; the shell logs them",
	"log/slog":  "a core emits typed notices; the shell logs them",
	"syscall":   "system calls are an edge's business",
	"math/rand": "use math/rand/v2 with a generator that the caller passes in",
}

// impureCalls are functions that a pure package must not call.
var impureCalls = map[string][]string{
	"time":    {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"},
	"rand/v2": {"Int", "IntN", "Uint32", "Uint64", "Float64", "Perm", "Shuffle", "N"},
}

// mayRunGoroutines are pure packages whose work is parallel by design, with those
// below them; their results do not depend on the number of workers (their tests
// show it). Of the simulator it is the pool of workers alone: a run of packets
// takes minutes, and its goroutines end before Engine.Run returns.
var mayRunGoroutines = []string{"route", "sim/dataplane/lockstep"}

type file struct {
	pkg  string // module-relative directory
	name string
	test bool
	ast  *ast.File
	// lines is how many the file has; span how many a node has.
	lines int
	span  func(ast.Node) int
}

// TestRulesAreUnique: a second rule for a package would never be read.
func TestRulesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rules {
		if seen[r.pkg] {
			t.Errorf("package %s has two rules", r.pkg)
		}
		seen[r.pkg] = true
	}
}

// TestImportRules checks direct imports. A pure package imports only pure packages of
// this module and the standard library, so the result applies to all its dependencies.
func TestImportRules(t *testing.T) {
	for _, f := range sources(t) {
		if f.test {
			continue // tests may reach across; those that join managers with sim live in lab
		}
		r, ok := ruleFor(f.pkg)
		if !ok {
			t.Errorf("%s: package %s has no rule in internal/arch: add one with its reason", f.name, f.pkg)
			continue
		}
		for _, im := range f.ast.Imports {
			p := strings.Trim(im.Path.Value, `"`)
			rel, own := strings.CutPrefix(p, module+"/")
			if own {
				if slices.Contains(testSupport, rel) && !slices.Contains(testSupport, f.pkg) {
					t.Errorf("%s imports %s: only tests may", f.name, p)
				}
				if rel != f.pkg && !slices.Contains(algorithms, rel) && !allowed(r.may, rel) {
					t.Errorf("%s imports %s: %s (%s)", f.name, p, r.pkg, r.reason)
				}
				if to, ok := ruleFor(rel); r.pure && ok && !to.pure {
					t.Errorf("%s imports %s: %s is pure, and so must be all that it is built on", f.name, p, r.pkg)
				}
				continue
			}
			if strings.HasPrefix(r.pkg, "ib") && strings.Contains(p, ".") {
				t.Errorf("%s imports %s: ib uses the standard library alone", f.name, p)
			}
			if first, _, _ := strings.Cut(p, "/"); r.pure && strings.Contains(first, ".") {
				t.Errorf("%s imports %s: %s is pure; other people's modules are an edge's business", f.name, p, r.pkg)
			}
			if why := impure[p]; r.pure && why != "" {
				t.Errorf("%s imports %s: %s is pure; %s", f.name, p, r.pkg, why)
			}
		}
	}
}

func TestPureCores(t *testing.T) {
	for _, f := range sources(t) {
		r, ok := ruleFor(f.pkg)
		if f.test || !ok || !r.pure {
			continue
		}
		local := map[string]string{} // local name → what impureCalls knows it as
		for _, im := range f.ast.Imports {
			p := strings.Trim(im.Path.Value, `"`)
			switch p {
			case "time":
				local[localName(im, "time")] = "time"
			case "math/rand/v2":
				local[localName(im, "rand")] = "rand/v2"
			}
		}
		parallel := slices.ContainsFunc(mayRunGoroutines, func(p string) bool {
			return f.pkg == p || strings.HasPrefix(f.pkg, p+"/")
		})
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				if !parallel {
					t.Errorf("%s starts a goroutine: %s is a pure core, its shell runs it", f.name, f.pkg)
				}
			case *ast.SelectorExpr:
				x, ok := n.X.(*ast.Ident)
				if !ok || x.Obj != nil {
					break
				}
				if pkg, ok := local[x.Name]; ok && slices.Contains(impureCalls[pkg], n.Sel.Name) {
					t.Errorf("%s uses %s.%s: %s is a pure core; time and randomness are passed in", f.name, x.Name, n.Sel.Name, f.pkg)
				}
			}
			return true
		})
	}
}

// TestNoSleeps: tests wait for a condition or use virtual time, and never sleep.
func TestNoSleeps(t *testing.T) {
	for _, f := range sources(t) {
		if !f.test {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" && s.Sel.Name == "Sleep" {
					t.Errorf("%s sleeps: wait for a condition or use virtual time", f.name)
				}
			}
			return true
		})
	}
}

func localName(im *ast.ImportSpec, std string) string {
	if im.Name != nil {
		return im.Name.Name
	}
	return std
}

func ruleFor(pkg string) (rule, bool) {
	best, found := rule{}, false
	for _, r := range rules {
		if (pkg == r.pkg || strings.HasPrefix(pkg, r.pkg+"/")) && len(r.pkg) >= len(best.pkg) {
			best, found = r, true
		}
	}
	return best, found
}

func allowed(may []string, rel string) bool {
	return slices.ContainsFunc(may, func(m string) bool {
		if base, all := strings.CutSuffix(m, "..."); all {
			base = strings.TrimSuffix(base, "/")
			return base == "" || rel == base || strings.HasPrefix(rel, base+"/")
		}
		return rel == m
	})
}

func sources(t *testing.T) []file {
	t.Helper()
	out, err := readAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(out) == 0 {
		t.Fatal("no source files found")
	}
	return out
}

// readAll parses every source file of the module, once.
var readAll = sync.OnceValues(func() ([]file, error) {
	root := filepath.Join("..", "..")
	var out []file
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			switch base := path.Base(rel); {
			case rel == ".":
				return nil
			case strings.HasPrefix(base, "."), base == "testdata", base == "bin", rel == "tools", strings.HasPrefix(base, "sys-"):
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") || !strings.Contains(rel, "/") {
			return nil
		}
		f, err := parser.ParseFile(fset, p, nil, 0)
		if err != nil {
			return err
		}
		span := func(n ast.Node) int { return fset.Position(n.End()).Line - fset.Position(n.Pos()).Line + 1 }
		out = append(out, file{
			pkg: path.Dir(rel), name: rel, test: strings.HasSuffix(rel, "_test.go"), ast: f,
			lines: fset.File(f.Pos()).LineCount() - 1, span: span,
		})
		return nil
	})
	return out, err
})

// TestNoMutableExports: public packages export no variables that an importer could
// change, except errors for errors.Is.
func TestNoMutableExports(t *testing.T) {
	for _, f := range sources(t) {
		root, _, _ := strings.Cut(f.pkg, "/")
		if f.test || root == "internal" || root == "cmd" || root == "examples" {
			continue
		}
		for _, d := range f.ast.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				for _, n := range s.(*ast.ValueSpec).Names {
					if n.IsExported() && !strings.HasPrefix(n.Name, "Err") {
						t.Errorf("%s: %s can be changed by every importer of %s; make it a constant or a function", f.name, n.Name, f.pkg)
					}
				}
			}
		}
	}
}
