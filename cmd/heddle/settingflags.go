package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"heddle/settings"
)

// settingFlag is a setting as a flag. Environment and file set it too, through
// setFrom.
type settingFlag struct {
	s     *settings.Setting
	v     *settings.Values
	given bool
}

// listFlag is a settingFlag that may be given more than once, and takes a list in
// the file.
type listFlag struct{ *settingFlag }

// registerSettings makes flags of settings.
func registerSettings(fs *pflag.FlagSet, v *settings.Values, list []*settings.Setting) {
	for _, s := range list {
		f := &settingFlag{s: s, v: v}
		var value pflag.Value = f
		if s.Type() == "words" {
			value = listFlag{f}
		}
		// Usage includes the default, so pflag does not add it.
		flag := &pflag.Flag{Name: s.Name, Usage: v.Usage(s), Value: value, NoOptDefVal: s.Bare}
		if s.Type() == "bool" {
			flag.NoOptDefVal = "true"
		}
		fs.AddFlag(flag)
	}
}

func (f *settingFlag) String() string {
	if f.s == nil {
		return "" // a zero value, which pflag compares with
	}
	return f.v.Text(f.s.Name)
}

// Type is what help writes in the place of the value, such as FILE.
func (f *settingFlag) Type() string {
	if f.s.Arg == "" {
		return f.s.Type()
	}
	return f.s.Arg
}

func (f *settingFlag) Set(text string) error { return f.setFrom(text, "--"+f.s.Name) }

// setFrom sets the value; from is its origin, for messages.
func (f *settingFlag) setFrom(text, from string) error {
	return f.v.Set(f.s.Name, text, from)
}

// Set appends to earlier values: the flag may be repeated.
func (f listFlag) Set(text string) error { return f.setFrom(text, "--"+f.s.Name) }

func (f listFlag) setFrom(text, from string) error {
	if f.given {
		text = f.String() + "," + text
	}
	f.given = true
	return f.settingFlag.setFrom(text, from)
}

// fromFlag is a flag that records the origin of its value.
type fromFlag interface {
	setFrom(text, from string) error
}

// valuesOf are the settings that a command takes; nil: it takes none.
func valuesOf(c *cobra.Command) (v *settings.Values) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if x, ok := f.Value.(*settingFlag); ok {
			v = x.v
		}
	})
	return v
}

// asSetting is the setting of a flag; nil if it is none.
func asSetting(f *pflag.Flag) *settings.Setting {
	switch v := f.Value.(type) {
	case *settingFlag:
		return v.s
	case listFlag:
		return v.s
	}
	return nil
}

// flagUsages are the flags of a command for its help: its own, then its settings by
// group.
func flagUsages(c *cobra.Command) string {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	groups := map[settings.Group]*pflag.FlagSet{}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		s := asSetting(f)
		if s == nil {
			own.AddFlag(f)
			return
		}
		if groups[s.Group] == nil {
			groups[s.Group] = pflag.NewFlagSet("", pflag.ContinueOnError)
			groups[s.Group].SortFlags = false
		}
	})
	for _, s := range settings.All() { // in the order of the table
		if f := c.LocalFlags().Lookup(s.Name); f != nil && asSetting(f) != nil {
			groups[s.Group].AddFlag(f)
		}
	}
	parts := []string{strings.TrimRight(own.FlagUsagesWrapped(100), "\n ")}
	for _, g := range settings.Groups() {
		if fs := groups[g]; fs != nil && fs.HasAvailableFlags() {
			parts = append(parts, string(g)+":\n"+strings.TrimRight(fs.FlagUsagesWrapped(100), "\n "))
		}
	}
	return strings.Join(parts, "\n\n")
}
