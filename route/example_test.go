package route_test

import (
	"fmt"

	"heddle/fabric"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/updn"
)

// Route a fat tree, and prove that every packet arrives and that no buffers wait in a circle.
func Example() {
	f, err := fabric.Generate(fabric.FatTree{Hosts: 324}, fabric.GenerateOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := fabric.AssignLIDs(f, 1); err != nil {
		fmt.Println(err)
		return
	}
	g, err := f.Graph(fabric.GraphOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	tables, err := updn.Engine{}.Compute(g, route.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := check.Verify(g, tables, check.Options{})
	fmt.Println(r.OK(), r.Paths, "paths, the longest over", r.MaxHops, "links between switches,", r.VLsUsed, "lane")
	// Output:
	// true 104652 paths, the longest over 2 links between switches, 1 lane
}
