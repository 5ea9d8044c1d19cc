package main

import (
	"strings"
	"testing"
	"time"

	"heddle/api"
)

// TestOtherEvents: a manager that took over says of which time another one has the events.
func TestOtherEvents(t *testing.T) {
	until := time.Date(2026, 11, 2, 10, 15, 4, 0, time.Local)
	took := &api.HA{Mode: "pair", Active: true, Before: &api.Before{At: "b:7480", Until: until}}
	for _, c := range []struct {
		h     *api.HA
		since time.Time
		now   time.Time
		want  string
	}{
		{&api.HA{Mode: "single", Active: true}, until.Add(-time.Hour), until, ""},
		{took, until.Add(-time.Hour), until.Add(time.Minute), "before 10:15:04 the manager at b:7480 was active: its events are there"},
		{took, until.Add(-time.Hour), until.Add(13 * time.Hour), "before 2026-11-02 10:15:04 the manager at b:7480"},
		{took, until, until.Add(time.Minute), ""},
		{&api.HA{Mode: "pair", ActiveAt: "b:7480"}, until, until, "this manager is not active: the one at b:7480 is"},
	} {
		if got := otherEvents(c.h, c.since, c.now); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%+v since %v: %q, want %q", c.h, c.since, got, c.want)
		}
	}
}
