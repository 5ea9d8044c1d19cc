package sm

import (
	"testing"
	"time"

	"heddle/mad"
	"heddle/sm/config"
)

// TestRetriesAreCounted: a core sends a request that nobody answers as often as it
// was told, and 0 retries are one try.
func TestRetriesAreCounted(t *testing.T) {
	for retries := range 4 {
		cfg := config.Defaults()
		cfg.PortGUID, cfg.SMPRetries = 1, retries
		c := New(cfg)
		var out Output
		c.Step(0, Start{}, &out)
		tries := map[uint64]int{}
		for out.Timer < mad.Time(5*time.Second) {
			for i := range out.Sends {
				tries[uint64(out.Sends[i].Data[14])<<8|uint64(out.Sends[i].Data[15])]++ // the TID's end
			}
			now := out.Timer
			out.Reset()
			c.Step(now, Timer{}, &out)
		}
		if len(tries) == 0 {
			t.Fatal("nothing was sent")
		}
		for tid, n := range tries {
			if n != retries+1 {
				t.Errorf("%d retries: request %#x was sent %d times", retries, tid, n)
			}
		}
	}
}

// TestConfigBeginsWithDefaults: a Config that no manager can work with is refused,
// the empty one first of all.
func TestConfigBeginsWithDefaults(t *testing.T) {
	refused := func(c config.Config) (yes bool) {
		defer func() { yes = recover() != nil }()
		New(c)
		return false
	}
	if !refused(config.Config{}) {
		t.Error("an empty Config is taken")
	}
	if refused(config.Defaults()) {
		t.Error("Defaults are refused")
	}
	for _, change := range []func(*config.Config){
		func(c *config.Config) { c.SMPTimeout = 0 },
		func(c *config.Config) { c.RetryInterval = 0 },
		func(c *config.Config) { c.PollInterval = -1 },
		func(c *config.Config) { c.MaxWindow = 0 },
		func(c *config.Config) { c.SMPRetries = -1 },
		func(c *config.Config) { c.MaxMTU = 0 },
	} {
		c := config.Defaults()
		if change(&c); !refused(c) {
			t.Errorf("taken: %+v", c)
		}
	}
}
