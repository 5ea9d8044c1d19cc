// Package plural writes numbers of things.
package plural

import (
	"fmt"
	"strings"
)

// Integer is a type of whole numbers.
type Integer interface {
	~int | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Of is a number of things, as in "1 path", "2 paths" and "2 switches": thing has a plural in s,
// in es after ch, or in ies in place of ry.
func Of[T Integer](n T, thing string) string {
	switch {
	case n == 1:
		return "1 " + thing
	case strings.HasSuffix(thing, "ry"):
		thing = strings.TrimSuffix(thing, "y") + "ie"
	case strings.HasSuffix(thing, "ch"):
		thing += "e"
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Verb is one for a single thing and many for other numbers.
func Verb[T Integer](n T, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
