package updn_test

import (
	"testing"

	"heddle/route/engine/updn"
	"heddle/route/routetest"
)

func BenchmarkCompute(b *testing.B) { routetest.BenchCompute(b, updn.Engine{}) }

func BenchmarkUpdateLink(b *testing.B) { routetest.BenchUpdateLink(b, updn.Engine{}) }

func BenchmarkUpdate(b *testing.B) { routetest.BenchUpdate(b, updn.Engine{}) }
