package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// smUnit is the unit of the manager, as packaged.
const smUnit = "../../contrib/systemd/heddle@.service"

// stalling is a process whose loops stand still at times.
type stalling struct {
	from, to time.Time // no loop turns between them
}

func (s *stalling) Ready() (bool, string) { return true, "MASTER" }

func (s *stalling) Healthy(ctx context.Context) error {
	now := time.Now()
	if now.Before(s.from) || !now.Before(s.to) {
		return nil
	}
	select {
	case <-time.After(s.to.Sub(now)):
		return nil
	case <-ctx.Done():
		return errors.New("the loop of the manager does not turn")
	}
}

// signs runs a service for a time, and returns when the watchdog heard it, as times since the start.
func signs(t *testing.T, watchdog, run time.Duration, stall [2]time.Duration) (heard []time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := &service{watchdog: watchdog, log: slog.New(slog.DiscardHandler), send: func(text string) error {
			if slices.Contains(strings.Split(text, "\n"), "WATCHDOG=1") {
				heard = append(heard, time.Since(began))
			}
			return nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		done := s.start(ctx, &stalling{began.Add(stall[0]), began.Add(stall[1])})
		<-time.After(run)
		cancel()
		<-done
	})
	return heard
}

// unitSeconds is a setting of a unit in whole seconds.
func unitSeconds(t *testing.T, unit, key string) time.Duration {
	t.Helper()
	b, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + key + `=(\d+)$`).FindSubmatch(b)
	if m == nil {
		t.Fatalf("%s has no %s in seconds", unit, key)
	}
	n, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(n) * time.Second
}

// TestWatchdog: with the time of the packaged unit, the watchdog hears a manager whose loops turn at
// least every 3.4 s, and misses one that stands still (a loop that hangs, kill -STOP) after 10 s at
// most. A loop that is busy for 6 s is excused.
func TestWatchdog(t *testing.T) {
	limit := unitSeconds(t, smUnit, "WatchdogSec")
	if limit > 10*time.Second {
		t.Errorf("the unit's watchdog waits for %v", limit)
	}
	const hour = time.Hour
	heard := signs(t, limit, hour, [2]time.Duration{hour, hour})
	for i := 1; i < len(heard); i++ {
		if gap := heard[i] - heard[i-1]; gap > 3400*time.Millisecond {
			t.Fatalf("%v without a sign at %v, although all loops turn", gap, heard[i])
		}
	}
	if len(heard) < 1000 {
		t.Errorf("%d signs in an hour", len(heard))
	}
	for at := 20 * time.Second; at < 24*time.Second; at += 100 * time.Millisecond {
		heard = signs(t, limit, time.Minute, [2]time.Duration{at, hour})
		if last := heard[len(heard)-1]; last > at || last+limit-at > 10*time.Second {
			t.Errorf("stands still from %v: last sign at %v, so it is noticed at %v", at, last, last+limit)
		}
		heard = signs(t, limit, time.Minute, [2]time.Duration{at, at + 6*time.Second})
		for i := 1; i < len(heard); i++ {
			if gap := heard[i] - heard[i-1]; gap >= limit {
				t.Errorf("busy for 6 s from %v: %v without a sign", at, gap)
			}
		}
		if heard[len(heard)-1] < 50*time.Second {
			t.Errorf("busy for 6 s from %v: no sign after %v", at, heard[len(heard)-1])
		}
	}
}

// TestReloading: the service manager hears of a reload before it begins and when it has ended, with
// the time that tells one reload from another.
func TestReloading(t *testing.T) {
	var told []string
	s := &service{log: slog.New(slog.DiscardHandler), send: func(text string) error {
		told = append(told, text)
		return nil
	}}
	for range 2 {
		s.reloading(func() { told = append(told, "reads") })
	}
	if len(told) != 6 || told[1] != "reads" || told[2] != "READY=1" || told[4] != "reads" || told[5] != "READY=1" {
		t.Fatalf("%q", told)
	}
	at := func(i int) int {
		rest, ok := strings.CutPrefix(told[i], "RELOADING=1\nMONOTONIC_USEC=")
		n, err := strconv.Atoi(rest)
		if !ok || err != nil || n <= 0 {
			t.Fatalf("%q", told[i])
		}
		return n
	}
	if at(3) < at(0) {
		t.Errorf("the clock went back: %q", told)
	}
	s.send = func(string) error { return errors.New("nobody there") }
	s.tell("READY=1")
	if s.listens() {
		t.Error("a service manager that is gone is told again")
	}
}
