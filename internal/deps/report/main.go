// Command report summarizes the output of go test -json: a line for each
// package, the whole output of failures, and a list of skipped tests with the
// reasons. Its last line counts the tests. With -v it also has the output of
// tests that passed.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
)

type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64
	// ImportPath is set in the events of a failed build.
	ImportPath string
}

func main() {
	verbose := flag.Bool("v", false, "the output of tests that passed, too")
	flag.Parse()
	if err := run(flag.Arg(0), *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func run(path string, verbose bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()

	output := map[string]*strings.Builder{} // by package and test
	var passed, failed int
	var skipped, broken []string
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		var e event
		if json.Unmarshal(sc.Bytes(), &e) != nil {
			fmt.Println(sc.Text()) // go itself speaking
			continue
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "output":
			if output[key] == nil {
				output[key] = new(strings.Builder)
			}
			output[key].WriteString(e.Output)
		case "build-output":
			fmt.Print(e.Output)
		case "pass":
			if e.Test != "" {
				passed++
				if b := output[key]; verbose && b != nil {
					fmt.Print(b)
				}
				delete(output, key)
				break
			}
			fmt.Printf("ok    %-32s %6.1fs\n", e.Package, e.Elapsed)
		case "fail":
			if e.Test != "" {
				failed++
				broken = append(broken, key)
				break
			}
			fmt.Printf("FAIL  %-32s %6.1fs\n", e.Package, e.Elapsed)
			broken = append(broken, key)
		case "skip":
			if e.Test != "" {
				skipped = append(skipped, e.Package+"."+e.Test+": "+reason(output[key]))
			}
		}
	}
	if err := sc.Err(); err != nil {
		return err
	}
	for _, key := range broken {
		if b := output[key]; b != nil {
			fmt.Printf("\n--- %s\n%s", key, b)
		}
	}
	if len(skipped) > 0 {
		slices.Sort(skipped)
		fmt.Printf("\nskipped (%d):\n", len(skipped))
		for _, s := range skipped {
			fmt.Println("  " + s)
		}
	}
	fmt.Printf("\n%d passed, %d failed, %d skipped\n", passed, failed, len(skipped))
	if failed > 0 || len(broken) > 0 {
		return fmt.Errorf("%d tests failed, %d tests and packages in all", failed, len(broken))
	}
	if passed == 0 {
		return fmt.Errorf("no test was run")
	}
	return nil
}

// reason is the message of a skipped test.
func reason(b *strings.Builder) string {
	if b == nil {
		return "no reason given"
	}
	for l := range strings.SplitSeq(b.String(), "\n") {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "===") || strings.HasPrefix(l, "---") {
			continue
		}
		if _, after, ok := strings.Cut(l, ".go:"); ok {
			if _, text, ok := strings.Cut(after, ": "); ok {
				return text
			}
		}
		return l
	}
	return "no reason given"
}
