package main

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"heddle/daemon"
	"heddle/sm"
)

// told is the core's configuration under flags.
func told(t *testing.T, args ...string) sm.Config {
	t.Helper()
	f := newSMFlags()
	fs := pflag.NewFlagSet("sm", pflag.ContinueOnError)
	f.register(fs, "sm")
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	c, err := f.config("sm")
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return c
}

// TestFlagDefaults: an unset flag has the core's default.
func TestFlagDefaults(t *testing.T) {
	got := told(t)
	want := sm.Defaults()
	want.Engines, want.Route = got.Engines, got.Route // the core has none
	want.MaxWindow = 0                                // as the port takes
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range g.NumField() {
		if a, b := g.Field(i).Interface(), w.Field(i).Interface(); !reflect.DeepEqual(a, b) {
			t.Errorf("%s is %v without flags, and %v by the core's default", g.Type().Field(i).Name, a, b)
		}
	}
}

// TestZeroIsZero: a flag that is set to 0 does not get its default.
func TestZeroIsZero(t *testing.T) {
	if n := told(t, "--smp-retries", "0").SMPRetries; n != 0 {
		t.Errorf("--smp-retries 0 gives %d", n)
	}
	if n := told(t, "--smp-retries", "1").SMPRetries; n != 1 {
		t.Errorf("--smp-retries 1 gives %d", n)
	}
	if d := told(t, "--sweep-interval", "0").SweepInterval; d != 0 {
		t.Errorf("--sweep-interval 0 gives %v", d)
	}
	if n := told(t, "--damp-failures", "0").DampHold; n != 0 {
		t.Errorf("--damp-failures 0 gives %d", n)
	}
	if n := told(t, "--window", "0").MaxWindow; n != 0 { // documented as what the port takes
		t.Errorf("--window 0 gives %d", n)
	}
	if c := told(t, "--window", "1"); c.Window != 1 || c.MaxWindow != 1 {
		t.Errorf("--window 1 gives %d to %d", c.Window, c.MaxWindow)
	}
	if d := told(t, "--repath-time", "1ms").RepathTime; d != time.Millisecond {
		t.Errorf("--repath-time 1ms gives %v", d)
	}
}

// TestSlowLane: a lane is kept free only where flows may move to it, also in a plan.
func TestSlowLane(t *testing.T) {
	for _, x := range []struct {
		args string
		want bool
	}{
		{"--perf=10s --dftree=act", true},
		{"--perf=10s", false},
		{"--dftree=act", false}, // nobody finds hot spots
		{"--perf=10s --dftree=act --qos", false},
		{"--perf=10s --dftree=act --qos-policy=FILE", false},
	} {
		for _, command := range []string{"sm", "up", "plan"} {
			f := newSMFlags()
			fs := pflag.NewFlagSet(command, pflag.ContinueOnError)
			f.register(fs, command)
			if err := fs.Parse(strings.Fields(x.args)); err != nil {
				t.Fatal(err)
			}
			c, err := f.config("sm")
			var d daemon.Config
			f.count(&d)
			if err != nil || c.SlowLane != x.want || d.DFTree.KeepsLane() != x.want {
				t.Errorf("%s %s: a lane is kept: %v, used: %v, want %v (%v)", command, x.args, c.SlowLane, d.DFTree.KeepsLane(), x.want, err)
			}
		}
	}
	if told(t, "--perf=10s", "--dftree=act", "--once").SlowLane {
		t.Error("--once keeps a lane")
	}
}
