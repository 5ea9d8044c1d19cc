package arch

import (
	"go/ast"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// placementPackages decide, carry out, drive or show placements of addresses, which older versions
// called leases. Elsewhere a lease is that of a service, an M_Key or a file.
var placementPackages = []string{"subnet", "shell", "sm", "vm"}

// TestGlossary looks for the old name in identifiers. Those with release, MKey or Service are about
// other things.
func TestGlossary(t *testing.T) {
	other := strings.NewReplacer("release", "", "mkeylease", "", "servicelease", "")
	for _, f := range sources(t) {
		root, _, _ := strings.Cut(f.pkg, "/")
		if !slices.Contains(placementPackages, root) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && strings.Contains(other.Replace(strings.ToLower(id.Name)), "lease") {
				t.Errorf("%s: %s is to be named placement", f.name, id.Name)
			}
			return true
		})
	}
}

// errorPrefixes are packages whose errors name another package, with the reason.
var errorPrefixes = map[string]string{
	"sm/config":    "sm",      // users know it as sm.Config
	"store/boltdb": "store",   // its errors are for people, who know the store
	"replica/live": "replica", // the same
}

// TestErrorPrefixes: an error that begins with the name of a package begins with that of its own.
func TestErrorPrefixes(t *testing.T) {
	names := map[string]bool{}
	for _, f := range sources(t) {
		names[path.Base(f.pkg)] = true
	}
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		own := path.Base(f.pkg)
		if p, ok := errorPrefixes[f.pkg]; ok {
			own = p
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 || !isError(call.Fun) {
				return true
			}
			text, ok := firstWords(call.Args[0])
			if before, _, found := strings.Cut(text, ": "); ok && found && names[before] && before != own {
				t.Errorf("%s: an error begins with %q: write %q", f.name, before+":", own+":")
			}
			return true
		})
	}
}

// isError reports whether a function makes an error, or panics.
func isError(fun ast.Expr) bool {
	switch x := fun.(type) {
	case *ast.Ident:
		return x.Name == "panic"
	case *ast.SelectorExpr:
		return x.Sel.Name == "Errorf" || x.Sel.Name == "New" || x.Sel.Name == "Sprintf"
	}
	return false
}

// firstWords is the string literal that an expression begins with.
func firstWords(e ast.Expr) (string, bool) {
	for {
		switch x := e.(type) {
		case *ast.BinaryExpr:
			e = x.X
		case *ast.BasicLit:
			s, err := strconv.Unquote(x.Value)
			return s, err == nil && x.Kind == token.STRING
		default:
			return "", false
		}
	}
}

// plainWords are words that the glossary replaces, with what to write.
var plainWords = map[string]string{
	"for ever": "forever, or without end", "for good": "permanently", "likewise": "the same", "foretell": "predict",
	"foretells": "predicts", "foretold": "predicted", "newcomer": "new node, new tree",
}

// TestPlainWords looks for them in comments, texts and documents.
func TestPlainWords(t *testing.T) {
	words := strings.Join(slices.Sorted(maps.Keys(plainWords)), "|")
	pattern := regexp.MustCompile(`(?i)\b(` + strings.ReplaceAll(words, " ", `[\s/]+`) + `)\b`) // also over the end of a line
	notLetter := func(r rune) bool { return !unicode.IsLetter(r) }
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := filepath.Base(p)
		switch {
		case d.IsDir() && p != root && (strings.HasPrefix(base, ".") || base == "testdata" || base == "bin"):
			return filepath.SkipDir
		case d.IsDir() || base == "CHANGELOG.md" || base == "words_test.go":
			return nil
		}
		var texts []string
		switch filepath.Ext(p) {
		case ".go":
			texts, err = proseOf(p)
		case ".md":
			var b []byte
			b, err = os.ReadFile(p)
			texts = []string{string(b)}
		}
		for _, w := range pattern.FindAllString(strings.Join(texts, "\n"), -1) {
			w = strings.ToLower(strings.Join(strings.FieldsFunc(w, notLetter), " "))
			t.Errorf("%s: %q: write %s", p, w, plainWords[w])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// proseOf are the comments and string literals of a Go file.
func proseOf(name string) (texts []string, err error) {
	src, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	var s scanner.Scanner
	s.Init(fset.AddFile(name, fset.Base(), len(src)), src, nil, scanner.ScanComments)
	for {
		_, tok, lit := s.Scan()
		switch tok {
		case token.EOF:
			return texts, nil
		case token.COMMENT, token.STRING:
			texts = append(texts, lit)
		}
	}
}
