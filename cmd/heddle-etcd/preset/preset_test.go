package preset

import (
	"maps"
	"testing"
)

// TestPreset: what the environment has stays.
func TestPreset(t *testing.T) {
	env := map[string]string{"ETCD_ELECTION_TIMEOUT": "2000", "ETCD_NAME": "a"}
	if err := Set(func(k string) (string, bool) { v, ok := env[k]; return v, ok }, func(k, v string) error { env[k] = v; return nil }); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"ETCD_NAME": "a", "ETCD_HEARTBEAT_INTERVAL": "50", "ETCD_ELECTION_TIMEOUT": "2000",
		"ETCD_QUOTA_BACKEND_BYTES": "1073741824", "ETCD_AUTO_COMPACTION_MODE": "periodic", "ETCD_AUTO_COMPACTION_RETENTION": "5m",
	}
	if !maps.Equal(env, want) {
		t.Errorf("%v, want %v", env, want)
	}
}
