// Verify proves the forwarding tables in a subnet manager's dump: it reads a netlist (as
// ibnetdiscover prints it, with LIDs) and a dump (opensm-lfts.dump, or what dump_lfts.sh
// prints).
//
//	go run ./examples/verify NETLIST DUMP
package main

import (
	"fmt"
	"io"
	"os"

	"heddle/fabric"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/file"
	"heddle/route/osmdump"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "verify:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) != 2 {
		return fmt.Errorf("want a netlist and a dump")
	}
	netlist, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer netlist.Close()
	f, err := fabric.ReadNetlist(netlist, fabric.NetlistOptions{Name: args[0]})
	if err != nil {
		return err
	}
	g, err := f.Graph(fabric.GraphOptions{})
	if err != nil {
		return err
	}
	tables, err := os.Open(args[1])
	if err != nil {
		return err
	}
	defer tables.Close()
	dump, err := osmdump.ReadRoutes(tables)
	if err != nil {
		return err
	}
	t, err := file.Engine{Dump: dump}.Compute(g, route.Options{})
	if err != nil {
		return err
	}
	r := check.Verify(g, t, check.Options{})
	fmt.Fprintf(out, "%d paths, at most %d links between switches\n", r.Paths, r.MaxHops)
	return r.Err()
}
