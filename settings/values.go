package settings

import (
	"fmt"
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
