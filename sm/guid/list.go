package guid

import (
	"slices"

	"heddle/ib"
)

// At is entry i of a list by index, 0 beyond its end.
func At(l []ib.GUID, i int) ib.GUID {
	if i < len(l) {
		return l[i]
	}
	return 0
}

// Put writes entry i of a list by index, which grows as needed.
func Put(l []ib.GUID, i int, g ib.GUID) []ib.GUID {
	for len(l) <= i {
		l = append(l, 0)
	}
	l[i] = g
	return l
}

// Trim cuts the empty entries off the end of a list.
func Trim(l []ib.GUID) []ib.GUID {
	for len(l) > 0 && l[len(l)-1] == 0 {
		l = l[:len(l)-1]
	}
	return slices.Clip(l)
}
