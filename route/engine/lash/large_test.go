package lash_test

import (
	"testing"

	"heddle/internal/enginetest"
	"heddle/internal/need"
	"heddle/route/engine/lash"
)

// TestLarge: a large damaged tree is routed, proved and updated.
func TestLarge(t *testing.T) {
	need.Long(t)
	enginetest.Large(t, lash.Engine{})
}
