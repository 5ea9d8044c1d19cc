// Package settings is the table of all settings of the daemon (heddle sm, up and
// plan): name, range, default, meaning, OpenSM's name for it, and its field in
// the configuration of the cores. Flags, HEDDLE_* variables, the keys of the YAML
// file, --help and docs/cli.md are generated from the table.
//
//	v := settings.New()
//	err := v.Set("hoq-life", "17", "--hoq-life")
//	core := v.SM // an sm.Config
//
// Defaults belong to the cores (sm.Defaults, sa.Defaults); the table reads them
// there. The package does no I/O: the name of a file is a setting, and the caller
// reads the file.
package settings

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Versions in which settings appeared.
const (
	first = "0.1.0"
	v020  = "0.2.0"
)

// Setting is a row of the table.
type Setting struct {
	// Name is the flag, the key in the YAML file, and, in capitals with _ for - and
	// HEDDLE_ in front, the environment variable.
	Name  string
	Group Group
	// Arg is the placeholder of the value in help, such as TIME; empty for a
	// boolean.
	Arg string
	// Unit of the number, if its type does not imply it.
	Unit string
	// Meaning begins with a small letter and has no full stop at its end.
	Meaning string
	// OpenSM is the option of opensm.conf that means the same; empty: there is none.
	OpenSM string
	// Since is the version that had it first.
	Since string
	// Commands that take it; nil: all that manage a subnet (sm, up, plan).
	Commands []string
	// Secret settings are not repeated in messages.
	Secret bool
	// Bare is the value of a flag without an argument; empty: the flag needs one.
	Bare string
	// Live: a running manager takes another value when it reads its settings again (SIGHUP, POST
	// /v1/reload). Otherwise a restart does.
	Live bool
	// Switch: from 0 or to 0 it needs a restart all the same, which starts or ends a part of the program.
	Switch bool

	value value
}

// Group is a part of the table.
type Group string

// The groups, in the order of help and of the documentation.
const (
	Subnet     Group = "Mastership and addresses"
	Keys       Group = "Keys"
	Routing    Group = "Routing"
	Tables     Group = "Changes of tables"
	Links      Group = "Links and lanes"
	Lifetime   Group = "Lifetimes and thresholds"
	Sweeps     Group = "Requests, sweeps and polls"
	Damping    Group = "Links that keep failing"
	Access     Group = "Partitions and multicast groups"
	Answers    Group = "Subnet administrator"
	Virtual    Group = "Virtual ports and machines"
	Counters   Group = "Port counters"
	Congestion Group = "Congestion control"
	Serving    Group = "API and page"
	Running    Group = "State, logs and dumps"
	Pair       Group = "Pair of managers"
	Shared     Group = "State shared through etcd"
)

// Groups are all groups in their order.
func Groups() []Group {
	return []Group{Subnet, Keys, Routing, Tables, Links, Lifetime, Sweeps, Damping, Access, Answers, Virtual, Counters, Congestion, Serving, Running, Pair, Shared}
}

// All returns the rows of a group, or of all groups if none is named, in the
// order of the table.
func All(groups ...Group) (list []*Setting) {
	for i := range table {
		if len(groups) == 0 || slices.Contains(groups, table[i].Group) {
			list = append(list, &table[i])
		}
	}
	return list
}

// Of returns the rows that a command takes.
func Of(command string) (list []*Setting) {
	for _, s := range All() {
		commands := s.Commands
		if commands == nil {
			commands = daemons
		}
		if slices.Contains(commands, command) {
			list = append(list, s)
		}
	}
	return list
}

// Find returns the row of a name, nil if there is none.
func Find(name string) *Setting {
	i := slices.IndexFunc(table, func(s Setting) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &table[i]
}

// Type is the type of the value: bool, number, time, word, words, text.
func (s *Setting) Type() string { return s.value.kind() }

// Range describes the valid values, in words that follow "want"; empty: any text.
func (s *Setting) Range() string { return s.value.wanted() }

// Applies says in a word when another value applies.
func (s *Setting) Applies() string {
	if s.Live {
		return "live"
	}
	return "restart"
}

// Brief is the range in few words, for tables; may be empty.
func (s *Setting) Brief() string { return s.value.brief(s.Unit) }

// Words are those that it takes, where these are all that it takes or have names;
// nil otherwise.
func (s *Setting) Words() []string { return s.value.words() }

// Default is the value without flag, variable and file, in its text form.
func (s *Setting) Default() string { return s.value.text(defaults()) }

// defaults are read, never changed.
var defaults = sync.OnceValue(func() *Config {
	c := Defaults()
	return &c
})

// Usage is the line of --help: meaning, range and default.
func (s *Setting) Usage() string {
	return s.usage(s.Default())
}

func (s *Setting) usage(def string) string {
	text := s.Meaning
	limits := ""
	if _, ok := s.value.(boolean); !ok {
		limits = s.value.brief(s.Unit)
	}
	switch {
	case def == "" || def == "false":
	case limits != "":
		limits += "; default " + def
	default:
		limits = "default " + def
	}
	if s.Live {
		limits = strings.TrimPrefix(limits+"; live", "; ")
	}
	if limits != "" {
		text += " (" + limits + ")"
	}
	return text
}

// Refused says why a value was refused, and which values are valid.
type Refused struct {
	Setting *Setting
	From    string // origin of the value: a flag, a variable, a position in a file
	Text    string
	Why     string // the reason, if the range alone does not give it; may be empty
}

func (e *Refused) Error() string {
	what := e.From
	if !e.Setting.Secret {
		what += fmt.Sprintf(" %q", e.Text)
	}
	text := what + ": want " + e.Setting.Range()
	if e.Why != "" {
		text += "; " + e.Why
	}
	if d := e.Setting.Default(); d != "" && !e.Setting.Secret {
		text += " (leave it out for " + d + ")"
	}
	return text
}
