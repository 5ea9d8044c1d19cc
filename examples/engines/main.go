// Engines routes a generated fabric with three algorithms and compares the results.
//
//	go run ./examples/engines KIND PARAMETERS…
//	go run ./examples/engines torus 4x4 hosts=2
package main

import (
	"fmt"
	"io"
	"os"

	"heddle/fabric"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/minhop"
	"heddle/route/engine/nue"
	"heddle/route/engine/updn"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "engines:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("want a kind of fabric and its parameters")
	}
	t, o, err := fabric.ParseTopology(args[0], args[1:], 1)
	if err != nil {
		return err
	}
	f, err := fabric.Generate(t, o)
	if err != nil {
		return err
	}
	if err := fabric.AssignLIDs(f, 1); err != nil {
		return err
	}
	g, err := f.Graph(fabric.GraphOptions{})
	if err != nil {
		return err
	}
	for _, e := range []route.Engine{minhop.Engine{}, updn.Engine{}, nue.Engine{}} {
		t, err := e.Compute(g, route.Options{})
		if err != nil {
			return fmt.Errorf("%s: %w", e.Name(), err)
		}
		r := check.Verify(g, t, check.Options{})
		fmt.Fprintf(out, "%-8s mean %.2f links, most loaded channel %d paths, %d credit cycles\n", e.Name(), r.AvgHops, r.MaxChannelLoad, r.CreditCycles)
	}
	return nil
}
