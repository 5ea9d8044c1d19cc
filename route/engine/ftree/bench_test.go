package ftree_test

import (
	"testing"

	"heddle/internal/routetest"
	"heddle/route/engine/ftree"
)

func BenchmarkCompute(b *testing.B) { routetest.BenchCompute(b, ftree.Engine{}) }

func BenchmarkUpdateLink(b *testing.B) { routetest.BenchUpdateLink(b, ftree.Engine{}) }

func BenchmarkUpdate(b *testing.B) { routetest.BenchUpdate(b, ftree.Engine{}) }
