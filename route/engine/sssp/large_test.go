package sssp_test

import (
	"testing"

	"heddle/internal/enginetest"
	"heddle/internal/need"
	"heddle/route/engine/sssp"
)

// TestLarge: a large damaged tree is routed, proved and updated.
func TestLarge(t *testing.T) {
	need.Long(t)
	enginetest.Large(t, sssp.DFEngine{})
}
