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

	"heddle/cmd/heddle-etcd/preset"
)

func main() {
	if err := preset.Set(os.LookupEnv, os.Setenv); err != nil {
		println("heddle-etcd:", err.Error())
		os.Exit(1)
	}
	etcdmain.Main(os.Args)
}
