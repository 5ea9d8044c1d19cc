// Package preset has what heddle-etcd presets of etcd. It is apart from the program so that its test
// need not link etcd.
package preset

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

// Set sets those that the environment does not have.
func Set(lookup func(string) (string, bool), set func(key, value string) error) error {
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
