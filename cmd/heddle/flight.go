package main

import (
	"log/slog"
	"runtime/trace"
	"time"
)

// Bounds of what the flight recorder keeps. Under full load 16 MiB are some seconds.
const (
	flightTime  = 10 * time.Second
	flightBytes = 16 << 20
)

// openFlight prepares a recorder of what the process does, for the support bundle: which goroutine ran
// when, and what it waited for. It runs if it is on.
func (m *managed) openFlight(on bool) (stop func()) {
	m.flight = trace.NewFlightRecorder(trace.FlightRecorderConfig{MinAge: flightTime, MaxBytes: flightBytes})
	fly(m.flight, on, m.log)
	return m.flight.Stop
}

// fly starts or stops a recorder.
func fly(f *trace.FlightRecorder, on bool, log *slog.Logger) {
	switch {
	case on == f.Enabled():
	case !on:
		f.Stop()
	default:
		if err := f.Start(); err != nil { // another one runs: a bundle is being made
			log.Warn("support bundles have no trace of the past", "err", err)
		}
	}
}
