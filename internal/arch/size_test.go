package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"testing"
)

// Limits of what a reader has to keep in mind at once. Each list of exceptions
// says why; an exception that is no longer needed fails the test, so the lists
// only shrink.
const (
	maxFuncLines    = 80
	maxComplexity   = 25 // of one function with the literals in it, see complexity
	maxFields       = 40
	maxFileLines    = 700
	maxPackageLines = 6000 // without tests, with comments
)

// longFuncs are functions over maxFuncLines or maxComplexity, as "package.Function"
// or "package.Type.Method", and why they stay so.
var longFuncs = map[string]string{
	"partition.Partition.validate": "a table: one case for each rule",
	"vm.entry.check":               "a table: one case for each rule that a stored record must satisfy",
	"subnet.Snapshot.Check":        "a table: one case for each promise of the package",
}

// wideStructs are structs over maxFields.
var wideStructs = map[string]string{
	"ib/smp.PortInfo":  "a wire attribute has the fields of its table in the specification",
	"sm/config.Config": "one field for each setting of the manager; package settings has the table",
}

// longFiles are files over maxFileLines.
var longFiles = map[string]string{
	"sm/spec_test.go": "one small test for each statement of the specification; waits for the redesign of sm",
}

// largePackages are packages over maxPackageLines.
var largePackages = map[string]string{
	"cmd/heddle":       "one file for each command; they share flags, terminal and messages, and no command uses another",
	"lab/experiment":   "a few files for each published experiment; they share networks, beds, settings and claims, which are of no use elsewhere",
	"route/transition": "the planners of one subject share the mixer of old and new tables; none is of use without it",
	"sa":               "answers are one pure function over one snapshot, and the registries share its outputs; the wire formats are ib/sa",
	"sim":              "agents, links and switches of one device model change each other's state at each event; its shells are packages below it",
}

// complexity is one more than the branches of a function: if, for, case, select
// case, && and || (T. J. McCabe, 1976, as gocyclo counts).
func complexity(n ast.Node) int {
	c := 1
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			c++
		case *ast.CaseClause:
			if n.List != nil {
				c++
			}
		case *ast.CommClause:
			if n.Comm != nil {
				c++
			}
		case *ast.BinaryExpr:
			if n.Op == token.LAND || n.Op == token.LOR {
				c++
			}
		}
		return true
	})
	return c
}

// funcName is a function as the lists name it.
func funcName(pkg string, d *ast.FuncDecl) string {
	if d.Recv == nil {
		return pkg + "." + d.Name.Name
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return pkg + "." + x.Name + "." + d.Name.Name
		default:
			return pkg + "." + d.Name.Name
		}
	}
}

// excess is what is over a limit, by name: how far.
type excess map[string]string

// check reports what is over a limit without an exception, and exceptions that
// nothing needs.
func (x excess) check(t *testing.T, list string, allowed map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(x)) {
		if allowed[name] == "" {
			t.Errorf("%s has %s: split it, or argue in %s why not", name, x[name], list)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(allowed)) {
		if x[name] == "" {
			t.Errorf("%s: %s needs no exception any more: remove it", list, name)
		}
	}
}

func TestSizes(t *testing.T) {
	funcs, structs, files, packages := excess{}, excess{}, excess{}, excess{}
	lines := map[string]int{}
	for _, f := range sources(t) {
		n := f.lines
		if n > maxFileLines {
			files[f.name] = fmt.Sprintf("%d lines (at most %d)", n, maxFileLines)
		}
		if f.test {
			continue
		}
		lines[f.pkg] += n
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Body == nil {
					continue
				}
				long, c := f.span(d), complexity(d.Body)
				if long > maxFuncLines || c > maxComplexity {
					funcs[funcName(f.pkg, d)] = fmt.Sprintf("%d lines and complexity %d (at most %d and %d)", long, c, maxFuncLines, maxComplexity)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if name, n := fields(s); n > maxFields {
						structs[f.pkg+"."+name] = fmt.Sprintf("%d fields (at most %d)", n, maxFields)
					}
				}
			}
		}
	}
	for pkg, n := range lines {
		if n > maxPackageLines {
			packages[pkg] = fmt.Sprintf("%d lines without tests (at most %d)", n, maxPackageLines)
		}
	}
	funcs.check(t, "longFuncs", longFuncs)
	structs.check(t, "wideStructs", wideStructs)
	files.check(t, "longFiles", longFiles)
	packages.check(t, "largePackages", largePackages)
}

// fields counts the fields of a struct type, embedded ones too.
func fields(s ast.Spec) (name string, n int) {
	t, ok := s.(*ast.TypeSpec)
	if !ok {
		return "", 0
	}
	st, ok := t.Type.(*ast.StructType)
	if !ok {
		return "", 0
	}
	for _, f := range st.Fields.List {
		n += max(len(f.Names), 1)
	}
	return t.Name.Name, n
}
