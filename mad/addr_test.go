package mad

import (
	"reflect"
	"testing"
)

// TestSizes: an address has no more bytes than before it had a Q_Key. Each
// packet is copied several times.
func TestSizes(t *testing.T) {
	if n := reflect.TypeFor[Addr]().Size(); n > 40 {
		t.Errorf("an address has %d bytes, want at most 40", n)
	}
}
