package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestNegativeFlags: every flag with a number or a time refuses what is below 0, by the command line
// and by a file of settings, and says so; and takes 0.
func TestNegativeFlags(t *testing.T) {
	bad := map[string]string{"duration": "-5h", "int": "-1", "float64": "-0.5"}
	zero := map[string]string{"duration": "-0s", "int": "0", "float64": "-0"}
	seen := map[string]int{}
	for _, c := range allCommands(newRoot()) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			kind := f.Value.Type()
			if bad[kind] == "" || asSetting(f) != nil {
				return
			}
			seen[kind]++
			name := c.CommandPath() + " " + f.Name
			was := f.Value.String()
			args := append(strings.Fields(c.CommandPath())[1:], "--"+f.Name, bad[kind])
			root := newRoot()
			root.SetArgs(args)
			root.SetOut(io.Discard)
			root.SetErr(io.Discard)
			if mayBeNegative[name] {
				if err := f.Value.Set(bad[kind]); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				return
			}
			err := root.Execute()
			if usage := (*usageError)(nil); !errors.As(err, &usage) || !strings.Contains(err.Error(), "--"+f.Name+" \""+bad[kind]+"\": want a") || !strings.Contains(err.Error(), "0 or more") {
				t.Errorf("heddle %s: %v", strings.Join(args, " "), err)
			}
			if f.Value.Set(bad[kind]) == nil || f.Value.String() != was {
				t.Errorf("%s is %s after a refused value, before %s", name, f.Value, was)
			}
			if err := f.Value.Set(zero[kind]); err != nil {
				t.Errorf("%s %s: %v", name, zero[kind], err)
			}
		})
	}
	if seen["duration"] < 20 || seen["int"] < 20 || seen["float64"] < 4 {
		t.Errorf("only %v flags were seen", seen)
	}
	file := filepath.Join(t.TempDir(), "heddle.yaml")
	if err := os.WriteFile(file, []byte("sim:\n  latency: -1ms\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	root := newRoot()
	root.SetArgs([]string{"sim", "--config", file})
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	if err := root.Execute(); err == nil || !strings.Contains(err.Error(), "0 or more") {
		t.Errorf("a file with a negative time: %v", err)
	}
}
