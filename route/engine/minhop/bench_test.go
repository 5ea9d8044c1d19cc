package minhop_test

import (
	"testing"

	"heddle/route/engine/minhop"
	"heddle/route/routetest"
)

func BenchmarkCompute(b *testing.B) { routetest.BenchCompute(b, minhop.Engine{}) }

func BenchmarkUpdateLink(b *testing.B) { routetest.BenchUpdateLink(b, minhop.Engine{}) }

func BenchmarkUpdate(b *testing.B) { routetest.BenchUpdate(b, minhop.Engine{}) }
