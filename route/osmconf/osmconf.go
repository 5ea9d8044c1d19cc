// Package osmconf reads the input files of OpenSM's routing engines, so that
// sites keep theirs: lists of GUIDs (root_guid_file, cn_guid_file,
// io_guid_file, guid_routing_order_file, port_prof_ignore_file), ids_guid_file,
// hop_weights_file and port_search_ordering_file.
//
// All are lines of numbers, decimal or 0x hexadecimal, with # before a comment.
// A line that is wrong is an *Error with its number; nothing of the file is
// then used: half a list would change routes in silence.
package osmconf

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"heddle/ib"
	"heddle/route"
)

// maxLines bounds a file: more lines than a subnet has ports.
const maxLines = 1 << 20

// Error is a line that cannot be read.
type Error struct {
	Line int // from 1
	Msg  string
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Msg) }

// each calls fn with the fields of every line that has any.
func each(r io.Reader, fn func(f []string) error) error {
	sc := bufio.NewScanner(r)
	n := 0
	for sc.Scan() {
		n++
		if n > maxLines {
			return &Error{n, fmt.Sprintf("more than %d lines", maxLines)}
		}
		text, _, _ := strings.Cut(sc.Text(), "#")
		f := strings.Fields(text)
		if len(f) == 0 {
			continue
		}
		if err := fn(f); err != nil {
			return &Error{n, err.Error()}
		}
	}
	if err := sc.Err(); err != nil {
		return &Error{n + 1, err.Error()}
	}
	return nil
}

func guid(s string) (ib.GUID, error) {
	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil || v == 0 {
		return 0, fmt.Errorf("%q is not a GUID (want 0x and up to 16 hex digits, not 0)", s)
	}
	return ib.GUID(v), nil
}

func small(s, what string, lo, hi uint64) (uint8, error) {
	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil || v < lo || v > hi {
		return 0, fmt.Errorf("%q is not a %s (want %d to %d)", s, what, lo, hi)
	}
	return uint8(v), nil
}

// GUIDs reads a list of GUIDs, one a line, in the file's order. The rest of
// each line is ignored, as OpenSM does.
func GUIDs(r io.Reader) ([]ib.GUID, error) {
	var list []ib.GUID
	err := each(r, func(f []string) error {
		g, err := guid(f[0])
		list = append(list, g)
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// IDs reads an ids_guid_file: a GUID and a number a line. A GUID given twice
// with different numbers is an error.
func IDs(r io.Reader) (map[ib.GUID]uint64, error) {
	ids := map[ib.GUID]uint64{}
	err := each(r, func(f []string) error {
		if len(f) != 2 {
			return fmt.Errorf("want a GUID and a number, found %d fields", len(f))
		}
		g, err := guid(f[0])
		if err != nil {
			return err
		}
		v, err := strconv.ParseUint(f[1], 0, 64)
		if err != nil {
			return fmt.Errorf("%q is not a number", f[1])
		}
		if old, twice := ids[g]; twice && old != v {
			return fmt.Errorf("GUID %v has the number %d already", g, old)
		}
		ids[g] = v
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// HopWeights reads a hop_weights_file: switch GUID, port number and weight
// (1–255) a line.
func HopWeights(r io.Reader) ([]route.HopWeight, error) {
	var list []route.HopWeight
	err := each(r, func(f []string) error {
		if len(f) != 3 {
			return fmt.Errorf("want a switch GUID, a port and a weight, found %d fields", len(f))
		}
		g, err := guid(f[0])
		if err != nil {
			return err
		}
		p, err := small(f[1], "port number", 1, 254)
		if err != nil {
			return err
		}
		w, err := small(f[2], "weight", 1, 255)
		list = append(list, route.HopWeight{Switch: g, Port: p, Weight: w})
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// PortOrder reads a port_search_ordering_file: switch GUID, then port numbers
// in the order to try them. A port may be named once.
func PortOrder(r io.Reader) (map[ib.GUID][]uint8, error) {
	order := map[ib.GUID][]uint8{}
	err := each(r, func(f []string) error {
		g, err := guid(f[0])
		if err != nil {
			return err
		}
		if _, twice := order[g]; twice {
			return fmt.Errorf("switch %v has a line already", g)
		}
		if len(f) < 2 {
			return fmt.Errorf("no port follows switch %v", g)
		}
		var ports []uint8
		for _, s := range f[1:] {
			p, err := small(s, "port number", 1, 254)
			if err != nil {
				return err
			}
			if slices.Contains(ports, p) {
				return fmt.Errorf("port %d is named twice", p)
			}
			ports = append(ports, p)
		}
		order[g] = ports
		return nil
	})
	if err != nil {
		return nil, err
	}
	return order, nil
}
