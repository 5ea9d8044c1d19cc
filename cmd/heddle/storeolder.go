package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"heddle/internal/plural"
	"heddle/store"
)

// older is a version that reads an older state file.
type older struct {
	name   string
	format uint8
	tables store.Table // the last one that it knows; 0: none
}

// olderVersions are those of docs/upgrade.md.
var olderVersions = []older{
	{"first-light", 1, 0},
	{"answers", 2, store.TablePartitions},
	{"0.1.0", 2, store.TableFunctionGUIDs},
	{"hosts", 2, store.TablePathHistory},
	{"never-down", 3, store.TablePathHistory},
}

// journal reports whether the version's files have a journal, as those of this program.
func (o older) journal() bool { return o.format >= 3 }

func olderNames() (names []string) {
	for _, o := range olderVersions {
		names = append(names, o.name)
	}
	return names
}

func olderNamed(name string) (older, error) {
	i := slices.Index(olderNames(), name)
	if i < 0 {
		return older{}, fmt.Errorf("--for %s: want one of %s", name, strings.Join(olderNames(), ", "))
	}
	return olderVersions[i], nil
}

// olderForFormat is the flag of 'heddle store import' that makes a file of an older format: for the
// newest version that reads it, which knows all tables that the format can have.
func olderForFormat(format uint8) string {
	for _, o := range slices.Backward(olderVersions) {
		if o.format == format {
			return " --for " + o.name
		}
	}
	return ""
}

// leaveOut removes the records that the version does not know, and says so.
func (o older) leaveOut(s *store.State, w io.Writer) {
	n := map[store.Table]int{}
	s.Records = slices.DeleteFunc(s.Records, func(r store.Record) bool {
		if r.Table <= o.tables {
			return false
		}
		n[r.Table]++
		return true
	})
	for t := o.tables + 1; len(n) > 0; t++ {
		if k := n[t]; k > 0 {
			fmt.Fprintf(w, "left out: %s of table %v, which version %s does not know\n", plural.Of(k, "record"), t, o.name)
			delete(n, t)
		}
	}
}
