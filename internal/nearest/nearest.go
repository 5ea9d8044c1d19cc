// Package nearest finds the name that somebody who mistyped one probably meant.
package nearest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Hint names the known name that is nearest to one that is not known, as the end of a message: as what
// was probably meant, if it is near. It sorts known; without any it is empty.
func Hint(got string, known []string) string {
	if len(known) == 0 {
		return ""
	}
	slices.Sort(known)
	best := slices.MinFunc(known, func(a, b string) int {
		return cmp.Or(cmp.Compare(distance(got, a), distance(got, b)), cmp.Compare(samePrefix(got, b), samePrefix(got, a)))
	})
	name := strings.TrimLeft(got, "-") // of a flag
	if more := slices.IndexFunc(known, func(k string) bool { return len(name) > 1 && strings.HasPrefix(k, got) }); more >= 0 {
		best = known[more]
	} else if distance(got, best) > max(1, len(name)/2) {
		return fmt.Sprintf("; the nearest is %q", best)
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// samePrefix is the length of the common prefix of a and b.
func samePrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// distance is the Levenshtein distance of a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diag
			if a[i] != b[j] {
				cost++
			}
			diag = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
