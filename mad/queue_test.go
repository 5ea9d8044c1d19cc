package mad

import (
	"testing"

	"heddle/ib"
)

// TestUsed: the length without trailing zeros, for each length and with zeros in between.
func TestUsed(t *testing.T) {
	for n := range ib.MADLen + 1 {
		for _, first := range []byte{0, 1} {
			var m ib.MAD
			m[0] = first
			want := int(first)
			if n > 0 {
				m[n-1], want = 0x80>>(n%8), n
			}
			if got := used(&m); got != want {
				t.Errorf("byte 0 is %d, byte %d is the last: %d, want %d", first, n-1, got, want)
			}
		}
	}
}
