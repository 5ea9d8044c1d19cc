package settings

import (
	"fmt"
	"maps"
	"strings"
)

// Values are settings that were given, over the defaults of all others.
type Values struct {
	Config
	from     map[string]string // origin of each value that was set
	defaults map[string]string // of this command, where they are its own
}

// New returns Values without any setting.
func New() *Values {
	return &Values{Config: Defaults(), from: map[string]string{}, defaults: map[string]string{}}
}

// SetDefault gives a command another default than the table's.
func (v *Values) SetDefault(name, text string) {
	s := Find(name)
	if err := s.value.set(&v.Config, text); err != nil {
		panic("settings: the default of " + name + ": " + err.Error())
	}
	v.defaults[name] = text
}

// Set sets a value from a place: a flag, a variable, a line of a file. The last
// one applies. An error is a *Refused.
func (v *Values) Set(name, text, from string) error {
	s := Find(name)
	if s == nil {
		return fmt.Errorf("settings: there is no %q", name)
	}
	if err := s.value.set(&v.Config, text); err != nil {
		return &Refused{Setting: s, From: from, Text: text, Why: err.Error()}
	}
	v.from[name] = from
	return nil
}

// Change is a setting whose value differs between two Values.
type Change struct {
	Setting  *Setting
	From, To string // in text form; of secret settings empty
	// Live: the new value applies at once; otherwise a restart is needed.
	Live bool
}

// Adopt takes the values of next which a running manager can take, and returns all that differ among
// the settings of list. What needs a restart stays as it was.
func (v *Values) Adopt(next *Values, list []*Setting) (changes []Change) {
	for _, s := range list {
		was, now := v.Text(s.Name), next.Text(s.Name)
		if was == now {
			if s.Live {
				v.from[s.Name] = next.from[s.Name]
			}
			continue
		}
		c := Change{Setting: s, Live: s.Live && !(s.Switch && (was == "0") != (now == "0"))}
		if !s.Secret {
			c.From, c.To = was, now
		}
		if c.Live {
			v.from[s.Name] = next.from[s.Name]
			if err := s.value.set(&v.Config, now); err != nil {
				panic("settings: " + s.Name + " refuses its own text: " + err.Error()) // TestTable
			}
		}
		changes = append(changes, c)
	}
	return changes
}

// Clone returns a copy that shares nothing with v which Set, Adopt or SetDefault change.
func (v *Values) Clone() *Values {
	c := *v
	c.from, c.defaults = maps.Clone(v.from), maps.Clone(v.defaults)
	return &c
}

// Rerun are the defaults of v, with what its command line set: the start of another reading of
// environment and file. A value on the command line came from its own flag.
func (v *Values) Rerun(set func(name, text string) error) error {
	for _, s := range All() {
		if v.from[s.Name] != "--"+s.Name {
			continue
		}
		if err := set(s.Name, v.Text(s.Name)); err != nil {
			return err
		}
	}
	return nil
}

// Given reports whether the setting was set.
func (v *Values) Given(name string) bool { return v.from[name] != "" }

// From is the origin of a value, for messages: --engine, HEDDLE_ENGINE, or
// heddle.yaml:3:5: engine. An unset value is named by its flag.
func (v *Values) From(name string) string {
	if f := v.from[name]; f != "" {
		return f
	}
	return "--" + name
}

// Text is a value in its text form.
func (v *Values) Text(name string) string { return Find(name).value.text(&v.Config) }

// Usage is Setting.Usage with this command's default.
func (v *Values) Usage(s *Setting) string {
	if d, ok := v.defaults[s.Name]; ok {
		return s.usage(d)
	}
	return s.Usage()
}

// Check refuses values that do not go together.
func (v *Values) Check() error {
	for _, pair := range [][2]string{
		{"ufm-password-file", "ufm-listen"},
		{"ufm-tls-cert", "ufm-listen"},
		{"ufm-tls-key", "ufm-listen"},
		{"ufm-tls-cert", "ufm-tls-key"},
		{"ufm-tls-key", "ufm-tls-cert"},
		{"api-tls-cert", "api-tls-key"},
		{"api-tls-key", "api-tls-cert"},
		{"api-client-ca", "api-tls-cert"},
		{"api-client-ca", "api-clients"},
		{"api-clients", "api-client-ca"},
	} {
		if v.Text(pair[0]) != "" && v.Text(pair[1]) == "" {
			return fmt.Errorf("%s requires --%s", v.From(pair[0]), pair[1])
		}
	}
	if err := v.checkEtcd(); err != nil {
		return err
	}
	if err := v.checkPair(); err != nil {
		return err
	}
	switch k := &v.Congestion.Key; {
	case k.Write && k.Key == 0:
		return fmt.Errorf("%s requires --cc-key", v.From("cc-write-key"))
	case !k.Write && k.Protect:
		return fmt.Errorf("%s requires --cc-write-key", v.From("cc-protect-key"))
	case !k.Write && k.Lease > 0:
		return fmt.Errorf("%s requires --cc-write-key", v.From("cc-key-lease"))
	}
	if v.UFM.Addr != "" {
		switch {
		case v.UFM.Password == "":
			return fmt.Errorf("%s: the calls need a password; give --ufm-password-file", v.From("ufm-listen"))
		case v.UFM.User == "" || strings.Contains(v.UFM.User, ":"):
			return fmt.Errorf("%s %q: want a name without a colon", v.From("ufm-user"), v.UFM.User)
		}
	}
	return nil
}
