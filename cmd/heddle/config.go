package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"heddle/internal/nearest"
	"heddle/settings"
)

// maxConfig bounds a configuration file, in bytes.
const maxConfig = 1 << 20

// Sources of settings, in falling priority: flags, HEDDLE_* variables, the YAML
// file, the defaults. All three name a setting by its flag.

// envNotSettings are HEDDLE_* variables that are not settings of a command.
var envNotSettings = []string{"HEDDLE_REQUIRE", "HEDDLE_LONG", "HEDDLE_KERNEL", runtimeVariable}

func configHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "config",
		Short: "How settings are given: flags, environment, file",
		Long: `Every flag of a command can be given in three ways. The first source that sets it applies:

  1. the flag                       heddle sm --priority 10
  2. an environment variable        HEDDLE_PRIORITY=10 heddle sm
  3. a YAML file, by command        sm:
     (--config FILE or                port: umad:mlx5_0/1
     HEDDLE_CONFIG)                   priority: 10
                                      log-level: debug

A flag --log-level is HEDDLE_LOG_LEVEL in the environment and log-level in the
file; a command of a command (ctl status) is a section in a section. A flag that
can be given more than once takes a list in the file. An empty variable counts
as unset. A key or variable that does not exist is an error, which names the
nearest one that does; the whole file is checked, whatever the command.

'heddle sm --help' lists the settings of the daemon; docs/cli.md has them with
their ranges, OpenSM's names for them, and the version that added them.`,
	}
}

// applyConfig fills the flags of cmd that the command line did not set.
func applyConfig(cmd *cobra.Command, environ []string) error {
	if cmd.DisableFlagParsing {
		return nil
	}
	env, err := envSettings(cmd.Root(), environ)
	if err != nil {
		return err
	}
	if v, ok := env["config"]; ok && !cmd.Flags().Changed("config") {
		if err := cmd.Flags().Set("config", v); err != nil {
			return err
		}
	}
	delete(env, "config")
	set := map[string]bool{}
	cmd.Flags().Visit(func(f *pflag.Flag) { set[f.Name] = true })
	for _, name := range slices.Sorted(mapKeys(env)) {
		f := cmd.Flags().Lookup(name)
		if f == nil || set[name] {
			continue // a setting of another command, or overridden
		}
		if err := setFlag(cmd, f, env[name], envName(name)); err != nil {
			return err
		}
		set[name] = true
	}
	path, err := cmd.Flags().GetString("config")
	if err != nil || path == "" {
		return nil
	}
	return applyFile(cmd, path, set)
}

// envSettings collects HEDDLE_* by flag name and refuses unknown ones.
func envSettings(root *cobra.Command, environ []string) (map[string]string, error) {
	known := map[string]bool{"config": true}
	for _, c := range allCommands(root) {
		c.Flags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
	}
	env := map[string]string{}
	for _, kv := range environ {
		key, value, _ := strings.Cut(kv, "=")
		rest, ok := strings.CutPrefix(key, "HEDDLE_")
		if !ok || slices.Contains(envNotSettings, key) {
			continue
		}
		name := strings.ToLower(strings.ReplaceAll(rest, "_", "-"))
		if value == "" {
			continue
		}
		if !known[name] {
			var names []string
			for n := range known {
				names = append(names, envName(n))
			}
			return nil, usagef("environment: unknown setting %s%s", key, didYouMean(key, names))
		}
		env[name] = value
	}
	return env, nil
}

func envName(flag string) string {
	return "HEDDLE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func allCommands(root *cobra.Command) []*cobra.Command {
	out := []*cobra.Command{root}
	for _, c := range root.Commands() {
		out = append(out, allCommands(c)...)
	}
	return out
}

// applyFile reads the YAML file: command names on the first level (nested for
// subcommands), flag names below. It checks the whole file, including sections
// of other commands.
func applyFile(cmd *cobra.Command, path string, set map[string]bool) error {
	st, err := os.Stat(path)
	if err != nil {
		return usagef("configuration: %w", err)
	}
	if st.Size() > maxConfig {
		return usagef("configuration %s: %d bytes exceed the limit of %d", path, st.Size(), maxConfig)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return usagef("configuration: %w", err)
	}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		var syntax yaml.Error
		if errors.As(err, &syntax) && syntax.GetToken() != nil {
			at := syntax.GetToken().Position
			return usagef("%s:%d:%d: %s", path, at.Line, at.Column, syntax.GetMessage())
		}
		return usagef("configuration %s: %w", path, err)
	}
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if err := applySection(cmd, cmd.Root(), doc.Body, path, set); err != nil {
			return err
		}
	}
	return nil
}

func applySection(cmd, section *cobra.Command, body ast.Node, path string, set map[string]bool) error {
	values, err := mapping(body, path)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, v := range values {
		key := v.Key.String()
		where := position(path, v.Key)
		if seen[key] {
			return usagef("%s: %s occurs twice", where, key)
		}
		seen[key] = true
		if sub := child(section, key); sub != nil {
			if err := applySection(cmd, sub, v.Value, path, set); err != nil {
				return err
			}
			continue
		}
		f := section.Flags().Lookup(key)
		if f == nil || section == cmd.Root() || key == "config" {
			return usagef("%s: unknown setting %q%s", where, key, didYouMean(key, settingNames(section)))
		}
		if section == cmd && set[key] {
			continue // set by a flag or the environment
		}
		// Settings of other commands are set too, which checks them.
		if err := setFromNode(section, f, v.Value, where+": "+key); err != nil {
			return err
		}
	}
	return nil
}

func mapping(n ast.Node, path string) ([]*ast.MappingValueNode, error) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, nil
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, nil
	case *ast.NullNode:
		return nil, nil
	}
	return nil, usagef("%s: want settings as 'name: value', below the name of a command", position(path, n))
}

// setFlag sets a flag from another source than the command line; from is the
// source, for messages.
func setFlag(cmd *cobra.Command, f *pflag.Flag, text, from string) error {
	if v, ok := f.Value.(fromFlag); ok {
		if err := v.setFrom(text, from); err != nil {
			return &usageError{err}
		}
		f.Changed = true
		return nil
	}
	if err := cmd.Flags().Set(f.Name, text); err != nil {
		return usagef("%s %w", from, valueError(f, text, err))
	}
	return nil
}

func setFromNode(cmd *cobra.Command, f *pflag.Flag, n ast.Node, from string) error {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		s, err := scalar(n)
		if err != nil {
			return usagef("%s%w", from, err)
		}
		return setFlag(cmd, f, s, from)
	}
	var all []string
	for _, v := range seq.Values {
		s, err := scalar(v)
		if err != nil {
			return usagef("%s%w", from, err)
		}
		all = append(all, s)
	}
	switch list := f.Value.(type) {
	case listFlag:
		return setFlag(cmd, f, strings.Join(all, ","), from)
	case pflag.SliceValue:
		f.Changed = true
		if err := list.Replace(all); err != nil {
			return usagef("%s: %w", from, err)
		}
		return nil
	}
	return usagef("%s: takes one value, not a list", from)
}

func scalar(n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	}
	return "", errors.New(": want one value (a number, a word, true or false)")
}

func position(path string, n ast.Node) string {
	p := n.GetToken().Position
	return fmt.Sprintf("%s:%d:%d", path, p.Line, p.Column)
}

func child(c *cobra.Command, name string) *cobra.Command {
	for _, s := range c.Commands() {
		if s.Name() == name {
			return s
		}
	}
	return nil
}

func settingNames(c *cobra.Command) []string {
	names := childNames(c)
	if c.HasParent() {
		visitVisible(c.Flags(), func(f *pflag.Flag) { names = append(names, f.Name) })
	}
	return names
}

// visitVisible visits the flags that help lists.
func visitVisible(flags *pflag.FlagSet, visit func(*pflag.Flag)) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			visit(f)
		}
	})
}

// flagError names the nearest flag to an unknown one.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if asError(err, &unknown) && cmd.HasSubCommands() && cmd.Args != nil {
		if err := cmd.Args(cmd, cmd.Flags().Args()); err != nil { // arguments before the flag: no subcommand
			return err
		}
	}
	if asError(err, &unknown) && len(unknown.GetSpecifiedName()) > 1 {
		if sub := subcommandWith(cmd, unknown.GetSpecifiedName()); sub != "" {
			return usagef("--%s is a flag of subcommands, such as %q, and comes after their name", unknown.GetSpecifiedName(), sub)
		}
		var names []string
		visitVisible(cmd.Flags(), func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		return usagef("unknown flag --%s%s", unknown.GetSpecifiedName(), didYouMean("--"+unknown.GetSpecifiedName(), names))
	}
	var refused *settings.Refused
	if asError(err, &refused) {
		return &usageError{refused}
	}
	var value *pflag.InvalidValueError
	if asError(err, &value) {
		return usagef("--%s %w", value.GetFlag().Name, valueError(value.GetFlag(), value.GetValue(), value.Unwrap()))
	}
	return &usageError{err}
}

// subcommandWith is a subcommand of cmd that has the flag; "" if none has.
func subcommandWith(cmd *cobra.Command, flag string) string {
	for _, c := range cmd.Commands() {
		if f := c.Flags().Lookup(flag); f != nil && !f.Hidden && !c.Hidden {
			return c.CommandPath()
		}
		if s := subcommandWith(c, flag); s != "" {
			return s
		}
	}
	return ""
}

// valueError describes the valid values of a flag that refused one.
func valueError(f *pflag.Flag, value string, err error) error {
	var want string
	switch f.Value.Type() {
	case "duration":
		want = "a time with its unit, such as 10s or 200ms"
	case "bool":
		want = "true or false"
	case "float64":
		want = "a number"
	case "int", "int64", "uint", "uint8", "uint16", "uint64":
		want = "a whole number"
	case "intSlice":
		want = "whole numbers separated by commas"
	default:
		return fmt.Errorf("%q: %w", value, err)
	}
	if errors.Is(err, errNegative) {
		return fmt.Errorf("%q: want %s; %w", value, want, errNegative)
	}
	if errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("%q: want %s; this one is out of range", value, want)
	}
	return fmt.Errorf("%q: want %s", value, want)
}

// didYouMean names the nearest known name.
func didYouMean(got string, known []string) string { return nearest.Hint(got, known) }
