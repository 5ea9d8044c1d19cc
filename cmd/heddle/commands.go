package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"heddle/fabric"
	"heddle/fabric/cabling"
	"heddle/sim/live"
)

func subcommands() []*cobra.Command {
	return []*cobra.Command{
		newUp(), newSM(), newPlan(), newCtl(), newStore(), newImport(), newExport(), newAgent(), newSim(), newAttach(), newTopo(), newRoute(), newTraffic(), newFlood(), newLab(), newVersion(),
	}
}

func cancelable(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	return context.WithCancel(cmd.Context())
}

// readNetlist reads a fabric and the console lines in it.
func readNetlist(r io.Reader, o fabric.NetlistOptions) (*fabric.Fabric, []string, error) {
	f, err := fabric.ReadNetlist(r, o)
	if err != nil {
		return nil, nil, inputError("netlist", err)
	}
	return f, f.Console, nil
}

// inputError is an unreadable input: exit status 2, as for a wrong command
// line, but without a pointer to the command's help.
func inputError(what string, err error) error {
	if text := withoutPackage(err); text != err {
		return &exitError{2, text}
	}
	return &exitError{2, fmt.Errorf("%s: %w", what, err)}
}

// withoutPackage is an error about a line of a netlist or plan without the name of the package that read it.
func withoutPackage(err error) error {
	var where *fabric.NetlistError
	if errors.As(err, &where) {
		return errors.New(strings.TrimPrefix(where.Error(), "fabric: "))
	}
	var line *cabling.ParseError
	if errors.As(err, &line) {
		return errors.New(strings.TrimPrefix(line.Error(), "cabling: "))
	}
	return err
}

// generate generates a fabric from the arguments of 'topo gen' and 'up --topo'.
func generate(kind string, params []string, seed uint64) (*fabric.Fabric, error) {
	var names []string
	for _, k := range fabric.Kinds() {
		names = append(names, k.Name)
	}
	if !slices.Contains(names, kind) {
		all := strings.Join(names, ", ")
		return nil, usagef("unknown kind of fabric %q%s (kinds: %s)", kind, didYouMean(kind, names), all)
	}
	t, o, err := fabric.ParseTopology(kind, params, seed)
	var f *fabric.Fabric
	if err == nil {
		f, err = fabric.Generate(t, o)
	}
	if wrong, ok := errors.AsType[*fabric.GenerateError](err); ok {
		at := slices.IndexFunc(fabric.Kinds(), func(k fabric.Kind) bool { return k.Name == kind })
		wrong.Usage = fabric.Kinds()[at].Usage()
		wrong.Param = asWritten(wrong.Param, wrong.Usage)
	}
	if err != nil {
		return nil, usagef("%s", strings.TrimPrefix(err.Error(), "fabric: "))
	}
	return f, nil
}

// asWritten is the name that the usage of a kind has for a field, such as HOSTS or hosts for Hosts.
func asWritten(field, usage string) string {
	for _, name := range []string{strings.ToUpper(field), strings.ToLower(field)} {
		if field != "" && slices.Contains(strings.FieldsFunc(usage, func(c rune) bool { return !unicode.IsLetter(c) }), name) {
			return name
		}
	}
	return field
}

// portName is the description of the node of a simulated port.
func portName(p *live.Port, f *fabric.Fabric) string {
	ni := p.NodeInfo()
	for i := range f.Nodes {
		if f.Nodes[i].GUID == ni.NodeGUID {
			return f.Nodes[i].ID
		}
	}
	return ni.NodeGUID.String()
}
