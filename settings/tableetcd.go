package settings

import (
	"fmt"
	"time"
)

// Etcd is where several managers keep one state.
type Etcd struct {
	Store string // etcd://HOST:PORT,…/PREFIX; empty: the state is in a directory

	Authority, Certificate, Key string // files
	User                        string
	Password                    string // file
	Wait                        time.Duration
	NoCompact                   bool
}

// defaultEtcdWait outlasts the election of a leader at etcd's own timing (1 to 2 s).
const defaultEtcdWait = 2 * time.Second

var etcdTable = []Setting{
	{
		Name: "store", Group: Shared, Arg: "URL", Since: v020, Commands: pairs,
		Meaning: "shared state of the managers of this subnet: etcd://HOST:PORT[,HOST:PORT...][/PREFIX], prefix /heddle by default; default: the directory of --state",
		value:   text{func(c *Config) *string { return &c.Etcd.Store }},
	},
	{
		Name: "etcd-ca", Group: Shared, Arg: "FILE", Since: v020, Commands: pairs,
		Meaning: "certificate of the authority of etcd's certificates (PEM); connections are then encrypted",
		value:   text{func(c *Config) *string { return &c.Etcd.Authority }},
	},
	{
		Name: "etcd-cert", Group: Shared, Arg: "FILE", Since: v020, Commands: pairs,
		Meaning: "certificate that this manager shows to etcd (PEM)",
		value:   text{func(c *Config) *string { return &c.Etcd.Certificate }},
	},
	{
		Name: "etcd-key", Group: Shared, Arg: "FILE", Since: v020, Commands: pairs,
		Meaning: "key of that certificate",
		value:   text{func(c *Config) *string { return &c.Etcd.Key }},
	},
	{
		Name: "etcd-user", Group: Shared, Arg: "USER", Since: v020, Commands: pairs,
		Meaning: "user of etcd's own authentication",
		value:   text{func(c *Config) *string { return &c.Etcd.User }},
	},
	{
		Name: "etcd-password-file", Group: Shared, Arg: "FILE", Since: v020, Commands: pairs,
		Meaning: "file with that user's password",
		value:   text{func(c *Config) *string { return &c.Etcd.Password }},
	},
	{
		Name: "etcd-wait", Group: Shared, Arg: "TIME", Since: v020, Commands: pairs,
		Meaning: "maximum time that a change waits for etcd before it is refused; then all are refused until etcd answers",
		value:   span{at: func(c *Config) *time.Duration { return &c.Etcd.Wait }, least: 100 * time.Millisecond},
	},
	{
		Name: "etcd-no-compact", Group: Shared, Since: v020, Commands: pairs,
		Meaning: "do not compact etcd's history, because other programs use this etcd too",
		value:   boolean{func(c *Config) *bool { return &c.Etcd.NoCompact }},
	},
}

// checkEtcd refuses what does not go together with a shared state, and without.
func (v *Values) checkEtcd() error {
	for _, s := range etcdTable[1:] {
		if v.Etcd.Store == "" && v.Given(s.Name) {
			return fmt.Errorf("%s requires --store", v.From(s.Name))
		}
	}
	switch e := &v.Etcd; {
	case e.Store == "":
		return nil
	case v.Once:
		return fmt.Errorf("%s and %s do not go together: who holds the shared state stays", v.From("store"), v.From("once"))
	case v.Files.SADump != "":
		return fmt.Errorf("%s and %s do not go together: import the dump into a state directory, and that into etcd (docs/ha.md)", v.From("store"), v.From("sa-db"))
	case (e.Certificate == "") != (e.Key == ""):
		return fmt.Errorf("%s: want both --etcd-cert and --etcd-key", v.From("store"))
	case e.Certificate != "" && e.Authority == "":
		return fmt.Errorf("%s requires --etcd-ca", v.From("etcd-cert"))
	case (e.User == "") != (e.Password == ""):
		return fmt.Errorf("%s: want both --etcd-user and --etcd-password-file", v.From("store"))
	case e.User != "" && e.Authority == "":
		return fmt.Errorf("%s requires --etcd-ca: without encryption anybody on the way can read the password", v.From("etcd-user"))
	}
	return nil
}
