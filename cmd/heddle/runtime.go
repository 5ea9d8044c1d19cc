package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A daemon and 'heddle ctl' of one user find each other through the runtime
// directory. It holds the token that permits writing, and the address of the
// API of the daemon that was started last. It belongs to the user alone,
// because a writer could redirect ctl to another program.

// runtimeVariable names the environment variable for the runtime directory.
const runtimeVariable = "HEDDLE_RUNTIME_DIR"

// runtimeDir is where daemons of this user keep tokens and addresses. It
// depends as little as possible on the environment: root has one for services
// and logins, and a user's login session is found without XDG_RUNTIME_DIR too.
func runtimeDir() string {
	if d := os.Getenv(runtimeVariable); d != "" {
		return d
	}
	uid := os.Geteuid()
	if uid == 0 {
		return "/run/heddle"
	}
	for _, d := range []string{os.Getenv("XDG_RUNTIME_DIR"), "/run/user/" + strconv.Itoa(uid)} {
		if st, err := os.Stat(d); d != "" && err == nil && st.IsDir() {
			return filepath.Join(d, "heddle")
		}
	}
	return filepath.Join(os.TempDir(), "heddle-"+strconv.Itoa(uid))
}

// makePrivate creates a directory for this user alone, or refuses one to which
// others have access.
func makePrivate(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return private(dir)
}

// private refuses a directory that belongs to another user, or to which others
// may write.
func private(dir string) error {
	st, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := st.Sys().(*syscall.Stat_t)
	switch {
	case !st.IsDir():
		return fmt.Errorf("%s is not a directory; remove it, or set %s", dir, runtimeVariable)
	case !ok || int(owner.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to another user; remove it, or set %s", dir, runtimeVariable)
	case st.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("other users can write to %s (mode %v); change its mode to 0700, or set %s", dir, st.Mode().Perm(), runtimeVariable)
	}
	return nil
}

// announcement is the file with the address of the API and, on a second line,
// the name of the token's file.
func announcement() string { return filepath.Join(runtimeDir(), "api") }

// announce publishes the address and the token of the API for ctl. The returned
// function withdraws them, unless another daemon has announced itself since.
func announce(addr, token string) (withdraw func(), err error) {
	dir := runtimeDir()
	if err := makePrivate(dir); err != nil {
		return func() {}, err
	}
	tmp, err := os.CreateTemp(dir, ".api-*") // with mode 0600
	if err != nil {
		return func() {}, err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(addr + "\n" + token + "\n")
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), announcement())
	}
	if err != nil {
		return func() {}, err
	}
	return func() {
		if a, t := announced(); a == addr && t == token {
			os.Remove(announcement())
		}
	}, nil
}

// announced returns the announcement of a daemon of this user; empty if there
// is none.
func announced() (addr, token string) {
	if private(runtimeDir()) != nil {
		return "", ""
	}
	st, err := os.Lstat(announcement())
	if err != nil || !st.Mode().IsRegular() || st.Size() > 1<<14 {
		return "", ""
	}
	b, err := os.ReadFile(announcement())
	if err != nil {
		return "", ""
	}
	addr, token, _ = strings.Cut(strings.TrimSuffix(string(b), "\n"), "\n")
	return addr, token
}

// serviceDir has a directory for each manager that runs as a packaged service, with its socket: see
// contrib/systemd.
const serviceDir = "/run/heddle"

// serviceSocket is the API's socket of a packaged service.
const serviceSocket = "api.sock"

// answers reports whether somebody listens at an address of an API.
func answers(addr string) bool {
	network, at := "tcp", addr
	if sock, unix := strings.CutPrefix(addr, "unix:"); unix {
		network, at = "unix", sock
	}
	c, err := net.DialTimeout(network, at, 5*time.Second)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// onlyService is the address of the only service below dir that this user may use; empty if there is
// none.
func onlyService(dir string) (addr string, err error) {
	if os.Getenv(runtimeVariable) != "" {
		return "", nil // that directory alone counts
	}
	var list []string
	sockets, _ := filepath.Glob(filepath.Join(dir, "*", serviceSocket)) // no error: the pattern is sound
	for _, s := range sockets {
		if addr := "unix:" + s; answers(addr) {
			list = append(list, addr)
		}
	}
	switch len(list) {
	case 0:
		return "", nil
	case 1:
		return list[0], nil
	}
	return "", usagef("several managers run here; name one: --api %s", strings.Join(list, " or --api "))
}

// findAPI is the default address for ctl, and the token's file: those of the
// daemon of this user that was started last, if it lives; otherwise that of the only packaged
// service; otherwise the default address.
func findAPI() (addr, token string, err error) {
	if addr, token = announced(); addr != "" && answers(addr) {
		return addr, token, nil
	}
	if addr, err = onlyService(serviceDir); addr != "" || err != nil {
		return addr, "", err // no token: it is the owner's socket
	}
	return defaultAPI, tokenPath(defaultAPI), nil // no daemon, or it died without withdrawing
}
