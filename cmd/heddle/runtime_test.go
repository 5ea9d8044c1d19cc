package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFindService: ctl finds the one packaged service that lives, names them if there are several,
// and looks for none where a runtime directory is given.
func TestFindService(t *testing.T) {
	dir, err := os.MkdirTemp("", "heddle") // socket names are short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	serve := func(port string) net.Listener {
		if err := os.Mkdir(filepath.Join(dir, port), 0o700); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", filepath.Join(dir, port, serviceSocket))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	t.Setenv(runtimeVariable, "")
	dead := serve("mlx5_1:1")
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	dead.Close() // and leaves its file
	if addr, err := onlyService(dir); addr != "" || err != nil {
		t.Errorf("nobody answers: %q, %v", addr, err)
	}
	serve("mlx5_0:1")
	first := "unix:" + filepath.Join(dir, "mlx5_0:1", serviceSocket)
	if addr, err := onlyService(dir); addr != first || err != nil {
		t.Errorf("one answers: %q, %v", addr, err)
	}
	serve("0x0002c90300000001")
	if addr, err := onlyService(dir); err == nil || !strings.Contains(err.Error(), "--api "+first) {
		t.Errorf("two answer: %q, %v", addr, err)
	}
	t.Setenv(runtimeVariable, filepath.Join(dir, "own"))
	if addr, err := onlyService(dir); addr != "" || err != nil {
		t.Errorf("with a runtime directory: %q, %v", addr, err)
	}
}
