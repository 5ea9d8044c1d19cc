package minhop_test

import (
	"testing"

	"heddle/internal/routetest"
	"heddle/route/engine/minhop"
)

func BenchmarkCompute(b *testing.B) { routetest.BenchCompute(b, minhop.Engine{}) }

func BenchmarkUpdateLink(b *testing.B) { routetest.BenchUpdateLink(b, minhop.Engine{}) }

func BenchmarkUpdate(b *testing.B) { routetest.BenchUpdate(b, minhop.Engine{}) }
