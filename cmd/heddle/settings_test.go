package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"heddle/internal/settingstest"
	"heddle/route/engine/all"
	"heddle/settings"
)

// managers are the commands that take settings, with the flags that are their own.
var managers = map[string][]string{
	"sm":   nil,
	"plan": {"exit-code", "fault", "json"},
	"up":   {"node", "socket", "topo", "netlist", "allow-do", "allow-include", "vms", "pair"}, // and those of the simulator
}

// TestSettingsEverywhere: every setting of the table is a flag, a variable, a key of
// the file, a line of the help and a row of the documentation, all with the same
// effect; and no command has a setting outside the table.
func TestSettingsEverywhere(t *testing.T) {
	doc, err := os.ReadFile(cliDoc)
	if err != nil {
		t.Fatal(err)
	}
	var sim simFlags
	simulator := pflag.NewFlagSet("sim", pflag.ContinueOnError)
	sim.register(simulator)
	new(guestFlags).register(simulator)
	for name, own := range managers {
		help := new(bytes.Buffer)
		root := newRoot()
		c := child(root, name)
		c.SetOut(help)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			mine := f.Name == "help" || slices.Contains(own, f.Name) || name == "up" && simulator.Lookup(f.Name) != nil
			if mine == (asSetting(f) != nil) {
				t.Errorf("%s --%s: a setting that is not in the table, or a flag that is", name, f.Name)
			}
		})
		for _, s := range settings.Of(name) {
			f := c.Flags().Lookup(s.Name)
			if f == nil || asSetting(f) != s {
				t.Errorf("%s has no flag --%s", name, s.Name)
				continue
			}
			if !f.Hidden && !strings.Contains(help.String(), "  --"+s.Name) {
				t.Errorf("the help of %s does not have --%s", name, s.Name)
			}
			if row := "| `" + s.Name; !strings.Contains(string(doc), row+"`") && !strings.Contains(string(doc), row+" "+strings.ReplaceAll(s.Arg, "|", "\\|")+"`") {
				t.Errorf("%s does not have %s", cliDoc, s.Name)
			}
			if name == "sm" || s.Commands != nil && !slices.Contains(s.Commands, "sm") {
				same(t, name, s)
			}
		}
	}
}

// same sets a setting in each way, to a value that is not its default.
func same(t *testing.T, command string, s *settings.Setting) {
	t.Helper()
	text := settingstest.Other(t, s.Name, s.Type(), s.Words(), s.Default(), func(text string) bool {
		v := settings.New()
		return v.Set(s.Name, text, "test") == nil && !reflect.DeepEqual(v.Config, settings.Defaults())
	})
	given := map[string]settings.Config{}
	for _, way := range []string{"flag", "variable", "file"} {
		root := newRoot()
		c := child(root, command)
		var environ []string
		var err error
		switch way {
		case "flag":
			err = c.ParseFlags([]string{"--" + s.Name + "=" + text})
		case "variable":
			environ = []string{envName(s.Name) + "=" + text}
			err = c.ParseFlags(nil)
		case "file":
			file := filepath.Join(t.TempDir(), "heddle.yaml")
			if err := os.WriteFile(file, fmt.Appendf(nil, "%s:\n  %s: %q\n", command, s.Name, text), 0o600); err != nil {
				t.Fatal(err)
			}
			err = c.ParseFlags([]string{"--config", file})
		}
		if err == nil {
			err = applyConfig(c, environ)
		}
		if err != nil {
			t.Errorf("%s: %s by %s: %v", command, s.Name, way, err)
			return
		}
		v := valuesOf(c)
		if !v.Given(s.Name) || way == "variable" && v.From(s.Name) != envName(s.Name) || way == "file" && !strings.HasSuffix(v.From(s.Name), "heddle.yaml:2:3: "+s.Name) {
			t.Errorf("%s: %s by %s comes from %q", command, s.Name, way, v.From(s.Name))
		}
		given[way] = v.Config
	}
	if !reflect.DeepEqual(given["flag"], given["variable"]) || !reflect.DeepEqual(given["flag"], given["file"]) {
		t.Errorf("%s: %s %q is not the same by flag, variable and file", command, s.Name, text)
	}
	if reflect.DeepEqual(given["flag"], settings.Defaults()) {
		t.Errorf("%s: %s %q changes nothing", command, s.Name, text)
	}
}

// TestEngineNames: the table names exactly the existing engines.
func TestEngineNames(t *testing.T) {
	var names []string
	for _, e := range all.Engines() {
		names = append(names, e.Name())
	}
	if names = append(names, "file"); !slices.Equal(names, settings.EngineNames()) {
		t.Errorf("there are %v, and the table has %v", names, settings.EngineNames())
	}
	for name := range configured {
		if !slices.Contains(names, name) {
			t.Errorf("there is no engine %q", name)
		}
	}
}

// TestListSettings: a list may be given as one value, by repeated flags, and as a list
// in the file.
func TestListSettings(t *testing.T) {
	want := []string{"ftree", "updn"}
	for _, args := range [][]string{{"--engine", "ftree,updn"}, {"--engine", "ftree", "--engine", "updn"}} {
		c := child(newRoot(), "sm")
		if err := c.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		if got := valuesOf(c).Engines.Names; !slices.Equal(got, want) {
			t.Errorf("%q gives %q", args, got)
		}
	}
}
