// Command heddle-etcd is a member of an etcd cluster for the managers of a subnet, where there is no
// etcd yet: etcd itself, with presets that suit three members on one network. It takes all flags and
// ETCD_* variables of etcd, which win over the presets. With --config-file the file alone counts.
//
// It is a module and a program of its own: a data base does not belong into the process of a subnet
// manager, nor do its modules into the manager's.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

// presets are environment variables of etcd, which flags override.
var presets = [][2]string{
	// Changes stand still for less than a second when the leader dies (docs/ha.md).
	{"ETCD_HEARTBEAT_INTERVAL", "50"},
	{"ETCD_ELECTION_TIMEOUT", "500"},
	// The state of the largest subnet is below 100 MiB: a data base that grows is to be seen.
	{"ETCD_QUOTA_BACKEND_BYTES", "1073741824"},
	// The managers ask for compaction; this is for other programs, and for managers without the right.
	{"ETCD_AUTO_COMPACTION_MODE", "periodic"},
	{"ETCD_AUTO_COMPACTION_RETENTION", "5m"},
}

// preset sets those that the environment does not have.
func preset(lookup func(string) (string, bool), set func(key, value string) error) error {
	for _, p := range presets {
		if _, ok := lookup(p[0]); ok {
			continue
		}
		if err := set(p[0], p[1]); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if err := preset(os.LookupEnv, os.Setenv); err != nil {
		println("heddle-etcd:", err.Error())
		os.Exit(1)
	}
	etcdmain.Main(os.Args)
}
