package slurm

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// add lists a group after what is below it.
func (t *Topology) add(g *group) {
	s := Switch{Name: g.name, Hosts: g.hosts}
	for _, c := range g.children {
		t.add(c)
		s.Children = append(s.Children, c.name)
	}
	t.Switches = append(t.Switches, s)
}

const head = "# Made by heddle from the subnet's cables. Changes here are lost when it is made again.\n"

// remarks writes what the reader of the file should know.
func (t *Topology) remarks(w io.Writer) {
	fmt.Fprint(w, head)
	for _, l := range t.LeftOut {
		fmt.Fprintf(w, "# left out: %s\n", strings.Map(printable, l))
	}
}

func printable(r rune) rune {
	if r < ' ' || r == 0x7F {
		return '?'
	}
	return r
}

// Write writes the tree, or blocks of at least size hosts if size is not 0, as topology.conf or
// topology.yaml.
func (t *Topology) Write(w io.Writer, size int, yaml bool) error {
	switch {
	case size != 0:
		return t.WriteBlocks(w, size, yaml)
	case yaml:
		return t.WriteYAML(w)
	}
	return t.WriteConf(w)
}

// WriteConf writes topology.conf for TopologyPlugin=topology/tree.
func (t *Topology) WriteConf(w io.Writer) error {
	b := bufio.NewWriter(w)
	t.remarks(b)
	for _, s := range t.Switches {
		if s.Hosts != nil {
			fmt.Fprintf(b, "SwitchName=%s Nodes=%s\n", s.Name, Fold(s.Hosts))
		} else {
			fmt.Fprintf(b, "SwitchName=%s Switches=%s\n", s.Name, Fold(s.Children))
		}
	}
	return b.Flush()
}

// WriteYAML writes topology.yaml with one tree.
func (t *Topology) WriteYAML(w io.Writer) error {
	b := bufio.NewWriter(w)
	t.remarks(b)
	fmt.Fprint(b, "- topology: infiniband\n  cluster_default: true\n  tree:\n    switches:\n")
	for _, s := range t.Switches {
		key, names := "children", s.Children
		if s.Hosts != nil {
			key, names = "nodes", s.Hosts
		}
		fmt.Fprintf(b, "      - switch: %q\n        %s: %q\n", s.Name, key, Fold(names))
	}
	return b.Flush()
}

// Block is a set of hosts that Slurm's topology/block keeps jobs in.
type Block struct {
	Name  string
	Hosts []string
}

// Blocks makes a block of each leaf with at least size hosts, which Slurm demands of a block. It also
// returns how many hosts are on leaves with fewer. The sizes to plan with are size, and its doubles up to
// what all blocks together have (BlockSizes).
func (t *Topology) Blocks(size int) (blocks []Block, sizes []int, others int, err error) {
	if size < 1 {
		return nil, nil, 0, fmt.Errorf("block of %d hosts; give a number from 1", size)
	}
	for _, s := range t.Switches {
		switch {
		case s.Hosts == nil:
		case len(s.Hosts) < size:
			others += len(s.Hosts)
		default:
			blocks = append(blocks, Block{s.Name, s.Hosts})
		}
	}
	if len(blocks) == 0 {
		return nil, nil, others, fmt.Errorf("no leaf has %d hosts", size)
	}
	for k := 1; k <= len(blocks); k *= 2 {
		sizes = append(sizes, k*size)
	}
	return blocks, sizes, others, nil
}

// WriteBlocks writes topology.conf for TopologyPlugin=topology/block, or with yaml topology.yaml.
func (t *Topology) WriteBlocks(w io.Writer, size int, yaml bool) error {
	blocks, sizes, others, err := t.Blocks(size)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	t.remarks(b)
	if others > 0 {
		fmt.Fprintf(b, "# left out: %d hosts on leaves with fewer than %d\n", others, size)
	}
	list := strings.ReplaceAll(strings.Trim(fmt.Sprint(sizes), "[]"), " ", ",")
	if yaml {
		fmt.Fprintf(b, "- topology: infiniband\n  cluster_default: true\n  block:\n    block_sizes: [%s]\n    blocks:\n", list)
		for _, k := range blocks {
			fmt.Fprintf(b, "      - block: %q\n        nodes: %q\n", k.Name, Fold(k.Hosts))
		}
		return b.Flush()
	}
	for _, k := range blocks {
		fmt.Fprintf(b, "BlockName=%s Nodes=%s\n", k.Name, Fold(k.Hosts))
	}
	fmt.Fprintf(b, "BlockSizes=%s\n", list)
	return b.Flush()
}

// Fold writes names as Slurm's host list: names that differ in the number at their end only are one entry,
// as in "n[1-4,7],login". Names must be in natural order and differ.
func Fold(names []string) string {
	var b strings.Builder
	for i := 0; i < len(names); {
		if i > 0 {
			b.WriteByte(',')
		}
		stem, number := split(names[i])
		end := i + 1 // of the entry
		for number != "" && end < len(names) {
			s, n := split(names[end])
			if s != stem || len(n) != len(number) && (n == "" || n[0] == '0' || number[0] == '0') {
				break
			}
			end++
		}
		if end == i+1 {
			b.WriteString(names[i])
			i = end
			continue
		}
		b.WriteString(stem + "[")
		for k := i; k < end; {
			_, first := split(names[k])
			last, until := first, k+1
			for ; until < end; until++ {
				_, n := split(names[until])
				if value(n) != value(last)+1 {
					break
				}
				last = n
			}
			if k > i {
				b.WriteByte(',')
			}
			b.WriteString(first)
			if last != first {
				b.WriteString("-" + last)
			}
			k = until
		}
		b.WriteByte(']')
		i = end
	}
	return b.String()
}

// split cuts a name before the number at its end. Numbers of more than nine digits stay in the stem: Slurm
// reads none.
func split(name string) (stem, number string) {
	i := len(name)
	for i > 0 && name[i-1] >= '0' && name[i-1] <= '9' && len(name)-i < 9 {
		i--
	}
	if i > 0 && name[i-1] >= '0' && name[i-1] <= '9' {
		return name, ""
	}
	return name[:i], name[i:]
}

func value(number string) int {
	n := 0
	for _, c := range number {
		n = 10*n + int(c-'0')
	}
	return n
}
