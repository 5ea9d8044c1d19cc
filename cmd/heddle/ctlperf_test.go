package main

import "testing"

func TestPercent(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0 %", 1: "100.0 %", 0.123456: "12.3 %", 0.01: "1.0 %",
		0.0099: "0.99 %", 0.001: "0.10 %", 0.00025: "0.025 %", 8.7e-7: "0.000087 %",
	} {
		if got := percent(x); got != want {
			t.Errorf("percent(%g) = %q, want %q", x, got, want)
		}
	}
}
