package experiment

import (
	"heddle/fabric"
	"heddle/lab/experiment/bed"
	"heddle/route"
	"heddle/route/engine/ftree"
	"heddle/route/engine/minhop"
	"heddle/route/engine/vftree"
)

// The test beds of Paper III (package bed has their networks).

// bedFigure is a set of runs of the same flows.
type bedFigure struct {
	title  string
	fabric func() (*fabric.Fabric, error)
	flows  []bed.Flow
	lines  []bedLine
}

type bedLine struct {
	figure    string
	how       string
	engine    route.Engine
	lanes     int
	byHand    map[bed.Flow]int
	published string
}

var bedFigures = []bedFigure{
	{
		"Two switches (Figures 3, 5 and 6)", bed.PairFabric,
		[]bed.Flow{{1, 5}, {2, 6}, {7, 6}, {8, 6}},
		[]bedLine{
			{"5a", "1 lane", minhop.Engine{}, 1, nil, "all ≈ 4.5"},
			{"5c", "2, the victim 1-5 by hand", minhop.Engine{}, 2, map[bed.Flow]int{{1, 5}: 1}, "1-5 ≈ 13"},
		},
	},
	{
		"Tree of two hosts a leaf (Figures 4a, 7a and 8)", func() (*fabric.Fabric, error) { return bed.LeafFabric(2) },
		[]bed.Flow{{1, 5}, {3, 5}, {6, 5}, {2, 3}, {4, 1}},
		[]bedLine{
			{"8a", "1 lane", ftree.Engine{}, 1, nil, "2-3, 4-1 as 1-5, 3-5, under half; 6-5 more"},
			{"8b", "2, the victims by hand", ftree.Engine{}, 2, map[bed.Flow]int{{2, 3}: 1, {4, 1}: 1}, "2-3, 4-1 ≈ " +
				"7; 6-5 still more"},
			{"8c", "3, vFtree", vftree.Engine{Lanes: 3}, 3, nil, "2-3, 4-1 ≈ 7; 1-5, 3-5, 6-5 equal"},
		},
	},
	{
		"Tree of four hosts a leaf, 2:1 (Figures 4b, 7b and 9)", func() (*fabric.Fabric,
			error,
		) {
			return bed.LeafFabric(4)
		},
		[]bed.Flow{{1, 9}, {6, 9}, {10, 9}, {8, 11}},
		[]bedLine{
			{"9a", "1 lane", ftree.Engine{}, 1, nil, "6-9 and 8-11 ≈ 2.1"},
			{"9b", "2, the victim by hand", ftree.Engine{}, 2, map[bed.Flow]int{{8, 11}: 1}, "8-11 ≈ 7.5"},
			{"9c", "3, vFtree", vftree.Engine{Lanes: 3}, 3, nil, "all ≈ 4.5"},
			{
				"9d", "4, by hand",
				ftree.Engine{},
				4,
				map[bed.Flow]int{{1, 9}: 1, {6, 9}: 2, {8, 11}: 3},
				"contributors ≈ 4.5; 8-11 below 9b",
			},
		},
	},
}
