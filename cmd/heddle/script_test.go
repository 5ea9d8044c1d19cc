package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"heddle/internal/need"
)

// TestMain lets this test binary be heddle: scripts run the real main.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"heddle": main})
}

// patience bounds every wait of a script; nothing comes near it.
const patience = need.Patience

// TestScript runs testdata/script/*.txtar. Beside testscript's own commands:
//
//	exits CODE PROGRAM ARG…          run and want that exit status
//	start NAME PATTERN PROGRAM ARG…  run in the background until a line of its
//	                                 standard output matches
//	tell NAME LINE                   write a line to its standard input
//	say NAME PATTERN LINE            write a line to its standard input; read
//	                                 its output up to a line that matches
//	finish NAME CODE                 interrupt it and want that exit status
//	hangup NAME PATTERN              send it SIGHUP and wait until its standard
//	                                 error has a line that matches
//	logs NAME PATTERN                wait until its standard error matches
//	errors NAME PATTERN              its standard error, once finished, matches
//	json FILE KEY…                   FILE is an object that has these keys
//
// $SOCK is a socket name of the script's own.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("SOCK", fmt.Sprintf("heddle-script-%d-%s", os.Getpid(), filepath.Base(e.WorkDir)))
			e.Setenv("HEDDLE_RUNTIME_DIR", filepath.Join(e.WorkDir, "run"))
			e.Values["procs"] = map[string]*background{}
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond == "fuse" {
				f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
				if err != nil {
					return false, nil
				}
				return true, f.Close()
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "start": start, "tell": tell, "say": say, "finish": finish, "hangup": hangup, "logs": written, "errors": errorsMatch, "json": jsonKeys,
		},
	})
}

func want(ts *testscript.TestScript, neg bool, args []string, n int, usage string) {
	if neg || len(args) < n {
		ts.Fatalf("usage: %s", usage)
	}
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "exits CODE PROGRAM ARG…")
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit status %d, want %s", code, args[0])
	}
}

// background is a program that a script started.
type background struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  *bufio.Scanner
	errors transcript
}

// transcript is what a program has written; who waits for more of it is woken.
type transcript struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
	more chan struct{}   // closed when there is more; guarded by mu
}

func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.more != nil {
		close(t.more)
		t.more = nil
	}
	return t.text.Write(p)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// await waits until what came after the first from bytes matches.
func (t *transcript) await(from int, re *regexp.Regexp) bool {
	limit := time.After(patience)
	for {
		t.mu.Lock()
		text := t.text.String()[from:]
		if t.more == nil {
			t.more = make(chan struct{})
		}
		more := t.more
		t.mu.Unlock()
		if re.MatchString(text) {
			return true
		}
		select {
		case <-more:
		case <-limit:
			return false
		}
	}
}

func procs(ts *testscript.TestScript) map[string]*background {
	return ts.Value("procs").(map[string]*background)
}

func proc(ts *testscript.TestScript, name string) *background {
	p := procs(ts)[name]
	if p == nil {
		ts.Fatalf("no program called %s was started", name)
	}
	return p
}

func start(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 3, "start NAME PATTERN PROGRAM ARG…")
	p := &background{}
	program := args[2]
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if f := filepath.Join(dir, args[2]); !strings.Contains(args[2], "/") && isFile(f) {
			program = f
			break
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	p.cmd = exec.CommandContext(ctx, program, args[3:]...)
	p.cmd.Dir = ts.MkAbs(".")
	for _, key := range []string{"PATH", "HOME", "SOCK", "HEDDLE_RUNTIME_DIR", "TMPDIR", "GOCOVERDIR"} {
		if v := ts.Getenv(key); v != "" {
			p.cmd.Env = append(p.cmd.Env, key+"="+v)
		}
	}
	p.cmd.Stderr = &p.errors
	var err error
	p.in, err = p.cmd.StdinPipe()
	ts.Check(err)
	out, err := p.cmd.StdoutPipe()
	ts.Check(err)
	p.lines = bufio.NewScanner(out)
	ts.Check(p.cmd.Start())
	procs(ts)[args[0]] = p
	ts.Defer(func() {
		cancel()
		p.cmd.Wait()
	})
	p.await(ts, args[1])
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

// await reads lines up to one that matches and shows them as the standard
// output of the script's command.
func (p *background) await(ts *testscript.TestScript, pattern string) {
	re := regexp.MustCompile(pattern)
	timer := time.AfterFunc(patience, func() { p.cmd.Process.Kill() })
	defer timer.Stop()
	var seen strings.Builder
	defer func() { io.WriteString(ts.Stdout(), seen.String()) }()
	for p.lines.Scan() {
		fmt.Fprintln(&seen, p.lines.Text())
		if re.MatchString(p.lines.Text()) {
			return
		}
	}
	p.cmd.Wait()
	ts.Fatalf("%s: no line matches %s\n%s%s", p.cmd, pattern, seen.String(), p.errors.String())
}

func say(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 3, "say NAME PATTERN LINE")
	p := proc(ts, args[0])
	_, err := io.WriteString(p.in, args[2]+"\n")
	ts.Check(err)
	p.await(ts, args[1])
}

func tell(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "tell NAME LINE")
	_, err := io.WriteString(proc(ts, args[0]).in, args[1]+"\n")
	ts.Check(err)
}

func finish(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "finish NAME CODE")
	p := proc(ts, args[0])
	p.cmd.Process.Signal(syscall.SIGINT)
	timer := time.AfterFunc(patience, func() { p.cmd.Process.Kill() })
	defer timer.Stop()
	for p.lines.Scan() {
		fmt.Fprintln(ts.Stdout(), p.lines.Text())
	}
	p.cmd.Wait()
	if code := p.cmd.ProcessState.ExitCode(); strconv.Itoa(code) != args[1] {
		ts.Fatalf("%s: exit status %d, want %s\n%s", p.cmd, code, args[1], p.errors.String())
	}
}

func hangup(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "hangup NAME PATTERN")
	p := proc(ts, args[0])
	from := len(p.errors.String())
	ts.Check(p.cmd.Process.Signal(syscall.SIGHUP))
	if !p.errors.await(from, regexp.MustCompile(args[1])) {
		ts.Fatalf("%s: after SIGHUP no line matches %s\n%s", p.cmd, args[1], p.errors.String())
	}
}

func written(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "logs NAME PATTERN")
	if p := proc(ts, args[0]); !p.errors.await(0, regexp.MustCompile(args[1])) {
		ts.Fatalf("no line matches %s\n%s", args[1], p.errors.String())
	}
}

func errorsMatch(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: [!] errors NAME PATTERN")
	}
	text := proc(ts, args[0]).errors.String()
	if regexp.MustCompile(args[1]).MatchString(text) == neg {
		ts.Fatalf("standard error of %s, matching %s is %v:\n%s", args[0], args[1], !neg, text)
	}
}

func jsonKeys(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "json FILE KEY…")
	var v map[string]json.RawMessage
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &v))
	for _, key := range args[1:] {
		if _, ok := v[key]; !ok {
			ts.Fatalf("%s has no %q", args[0], key)
		}
	}
}
