package main

import "testing"

// TestAddressOfPage: --api takes what "page:" and a browser show.
func TestAddressOfPage(t *testing.T) {
	t.Setenv("HEDDLE_RUNTIME_DIR", t.TempDir())
	for _, addr := range []string{"127.0.0.1:7480", "http://127.0.0.1:7480", "http://127.0.0.1:7480/"} {
		m, err := (&place{addr: addr}).locate()
		if err != nil || m.base != "http://127.0.0.1:7480" || m.addr != "127.0.0.1:7480" {
			t.Errorf("%s: %q at %q, %v", addr, m.base, m.addr, err)
		}
	}
}
