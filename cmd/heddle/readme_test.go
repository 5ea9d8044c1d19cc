package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"heddle/internal/need"
)

// TestReadmeVM runs the commands of the README's section on VMs as printed, all in one
// paste.
func TestReadmeVM(t *testing.T) {
	bash := need.Tool(t, "bash")
	heddle, err := exec.LookPath("heddle") // testscript.Main puts it into the PATH
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Moving a VM\n")
	_, section, _ = strings.Cut(section, "```sh\n")
	script, _, ok := strings.Cut(section, "```\n")
	if !ok {
		t.Fatal("the README's section on VMs has no commands")
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(heddle, filepath.Join(dir, "bin", "heddle")); err != nil {
		t.Fatal(err)
	}
	addr := need.Addr(t)
	ctx, cancel := context.WithTimeout(context.Background(), need.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, bash, "-e")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // to end what a failing script leaves
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(script)
	cmd.Env = append(os.Environ(), "HEDDLE_API="+addr, "HEDDLE_SOCKET=readme-"+addr[len("127.0.0.1:"):], "HEDDLE_RUNTIME_DIR="+filepath.Join(dir, "run"))
	// A file, since a pipe would stay open until the manager, which the script does not wait for, has ended.
	printed, err := os.Create(filepath.Join(dir, "printed"))
	if err != nil {
		t.Fatal(err)
	}
	defer printed.Close()
	cmd.Stdout, cmd.Stderr = printed, printed
	err = cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	out, readErr := os.ReadFile(printed.Name())
	if err != nil || readErr != nil {
		t.Fatalf("%v, %v\n%s", err, readErr, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	list := ""
	for _, l := range lines {
		if strings.HasPrefix(l, "web ") {
			list = l
		}
	}
	if f := strings.Fields(list); len(f) < 3 || f[1] != "attached" || f[2] != "host-7/1" {
		t.Errorf("in the end the VM is %q\n%s", list, out)
	}
}
