package torus

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"heddle/ib"
)

// Bounds of a configuration.
const (
	maxSwitches = 49151 // as many as there are unicast LIDs
	maxLine     = 4096  // bytes
	maxLines    = 10000
	maxSeeds    = 256
	maxPorts    = 255
)

// Config is the contents of a torus-2QoS.conf.
type Config struct {
	// Size are the switches along x, y and z; 1 for a missing dimension. Open
	// marks a dimension as a mesh instead of a ring; those of two always are.
	Size  [3]int
	Open  [3]bool
	Seeds []Seed
	// PortOrder is the order in which the ports of a destination switch use
	// parallel links in turn; nil: ascending.
	PortOrder []uint8
	// MaxPorts (portgroup_max_ports, default 16) and MaxChanges (max_changes,
	// default 32) are read and have no effect: no number of ports is too large
	// here, and changes are reported elsewhere.
	MaxPorts, MaxChanges int
}

// Seed fixes the origin and the direction of the coordinates.
type Seed struct {
	// Plus and Minus are the switches next to From in the positive and the
	// negative direction of x, y and z; 0: not given.
	From        ib.GUID
	Plus, Minus [3]ib.GUID
	// Dateline is how far the origin lies from From.
	Dateline [3]int
}

// empty reports whether a seed is empty.
func (s *Seed) empty() bool { return *s == Seed{} }

// ConfigError is a line of a torus-2QoS.conf that cannot be used.
type ConfigError struct {
	Line int // from 1
	Err  error
}

func (e *ConfigError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap is what is wrong with the line.
func (e *ConfigError) Unwrap() error { return e.Err }

// ParseConfig reads a torus-2QoS.conf (torus-2QoS.conf(5)). Extra words on a
// line are ignored, as OpenSM does; an unknown keyword, an invalid value and a
// contradictory seed are errors that name the line and what it should contain.
// Input is bounded: 10,000 lines of 4 KiB, 256 seeds, 49,151 switches.
func ParseConfig(r io.Reader) (*Config, error) {
	p := &parser{c: &Config{MaxPorts: 16, MaxChanges: 32}}
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 512), maxLine)
	for sc.Scan() {
		if p.line++; p.line > maxLines {
			return nil, &ConfigError{p.line, fmt.Errorf("more than %d lines; this is not a torus-2QoS.conf", maxLines)}
		}
		words := strings.Fields(sc.Text())
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		if err := p.keyword(words[0], words[1:]); err != nil {
			return nil, &ConfigError{p.line, err}
		}
	}
	if err := sc.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return nil, &ConfigError{p.line + 1, fmt.Errorf("longer than %d bytes; this is not a torus-2QoS.conf", maxLine)}
		}
		return nil, err
	}
	if p.c.Size == [3]int{} {
		return nil, &ConfigError{max(p.line, 1), fmt.Errorf("the file ends without saying how large the torus is; begin it with a line such as \"torus 4 4 4\"")}
	}
	p.c.Seeds = slices.DeleteFunc(p.c.Seeds, func(s Seed) bool { return s.empty() })
	for i := range p.c.Seeds {
		if p.c.Seeds[i].From == 0 {
			return nil, &ConfigError{p.line, fmt.Errorf("seed %d has a date line but no link; add one such as \"xp_link FROM TO\"", i+1)}
		}
	}
	return p.c, nil
}

type parser struct {
	c    *Config
	line int
}

// seed is the seed that lines now add to.
func (p *parser) seed() *Seed {
	if len(p.c.Seeds) == 0 {
		p.c.Seeds = append(p.c.Seeds, Seed{})
	}
	return &p.c.Seeds[len(p.c.Seeds)-1]
}

func (p *parser) keyword(key string, args []string) error {
	if p.c.Size == [3]int{} && key != "torus" && key != "mesh" {
		return fmt.Errorf("%q comes before the size of the torus; begin the file with a line such as \"torus 4 4 4\"", clip(key))
	}
	switch key {
	case "torus", "mesh":
		return p.size(key, args)
	case "xp_link", "yp_link", "zp_link", "xm_link", "ym_link", "zm_link":
		return p.link(key, args)
	case "x_dateline", "y_dateline", "z_dateline":
		d := int(key[0] - 'x')
		k := p.c.Size[d]
		v, err := number(key, args, -(k - 1), k-1)
		if err != nil {
			return err
		}
		p.seed().Dateline[d] = v
		return nil
	case "next_seed":
		if len(p.c.Seeds) >= maxSeeds {
			return fmt.Errorf("more than %d seeds; leave some out", maxSeeds)
		}
		p.c.Seeds = append(p.c.Seeds, Seed{})
		return nil
	case "portgroup_max_ports":
		v, err := number(key, args, 1, 1<<20)
		p.c.MaxPorts = v
		return err
	case "max_changes":
		v, err := number(key, args, 0, 1<<30)
		p.c.MaxChanges = v
		return err
	case "port_order":
		var order []uint8
		for _, a := range args {
			v, err := strconv.ParseUint(a, 0, 16)
			if err != nil || v > maxPorts {
				return fmt.Errorf("port_order needs port numbers from 0 to %d, got %q", maxPorts, clip(a))
			}
			if !slices.Contains(order, uint8(v)) {
				order = append(order, uint8(v))
			}
		}
		if len(order) == 0 {
			return errors.New("port_order needs at least one port number")
		}
		p.c.PortOrder = order
		return nil
	}
	return fmt.Errorf("unknown keyword %q; known keywords are torus, mesh, [xyz]p_link, [xyz]m_link, [xyz]_dateline, next_seed, portgroup_max_ports, port_order and max_changes", clip(key))
}

func (p *parser) size(key string, args []string) error {
	if p.c.Size != [3]int{} {
		return fmt.Errorf("a second %q line; remove one", key)
	}
	if len(args) < 3 {
		return fmt.Errorf("%s needs three sizes, such as \"%s 4 4 1\" (1 for a missing dimension), got %d", key, key, len(args))
	}
	var size [3]int
	var open [3]bool
	cells := 1
	for d, a := range args[:3] {
		open[d] = key == "mesh"
		digits := a
		if n := len(a); n > 0 {
			switch a[n-1] {
			case 't', 'T':
				digits, open[d] = a[:n-1], false
			case 'm', 'M':
				digits, open[d] = a[:n-1], true
			}
		}
		v, err := strconv.ParseUint(digits, 0, 32)
		if err != nil || v < 1 || v > maxSwitches {
			return fmt.Errorf("%s needs sizes from 1 to %d, each followed by t or m if it differs, got %q", key, maxSwitches, clip(a))
		}
		size[d] = int(v)
		if size[d] <= 2 {
			open[d] = true // a ring of two is a path with double links
		}
		if cells *= size[d]; cells > maxSwitches {
			return fmt.Errorf("the %s would have more than %d switches; make it smaller", key, maxSwitches)
		}
	}
	p.c.Size, p.c.Open = size, open
	return nil
}

func (p *parser) link(key string, args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("%s needs the node GUIDs of two switches, got %d words", key, len(args))
	}
	var guid [2]ib.GUID
	for i, a := range args[:2] {
		v, err := strconv.ParseUint(a, 0, 64)
		if err != nil || v == 0 {
			return fmt.Errorf("%s needs the node GUIDs of two switches, such as 0x200000, got %q", key, clip(a))
		}
		guid[i] = ib.GUID(v)
	}
	if guid[0] == guid[1] {
		return fmt.Errorf("%s joins switch %v with itself; name two switches", key, guid[0])
	}
	d := int(key[0] - 'x')
	if p.c.Size[d] == 1 {
		return fmt.Errorf("%s, but the size of %c is 1; take the line out or make the size larger", key, key[0])
	}
	s := p.seed()
	if s.From != 0 && s.From != guid[0] {
		return fmt.Errorf("%s begins at switch %v, the seed's other links at %v; all must begin at the same switch (next_seed begins another seed)", key, guid[0], s.From)
	}
	s.From = guid[0]
	if key[1] == 'p' {
		s.Plus[d] = guid[1]
	} else {
		s.Minus[d] = guid[1]
	}
	return nil
}

// number parses the one whole number of a keyword.
func number(key string, args []string, low, high int) (int, error) {
	if len(args) == 0 {
		return 0, fmt.Errorf("%s needs a whole number from %d to %d", key, low, high)
	}
	v, err := strconv.ParseInt(args[0], 0, 32)
	if err != nil || v < int64(low) || v > int64(high) {
		return 0, fmt.Errorf("%s needs a whole number from %d to %d, got %q", key, low, high, clip(args[0]))
	}
	return int(v), nil
}

// clip shortens a word for an error.
func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}
