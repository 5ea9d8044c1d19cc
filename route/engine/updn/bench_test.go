package updn_test

import (
	"testing"

	"heddle/internal/routetest"
	"heddle/route/engine/updn"
)

func BenchmarkCompute(b *testing.B) { routetest.BenchCompute(b, updn.Engine{}) }

func BenchmarkUpdateLink(b *testing.B) { routetest.BenchUpdateLink(b, updn.Engine{}) }

func BenchmarkUpdate(b *testing.B) { routetest.BenchUpdate(b, updn.Engine{}) }
