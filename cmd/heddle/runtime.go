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
// directory: there is the token that changing something needs, and the address
// of the API of the daemon that was started last. Whoever could write there
// could have ctl talk to a program of his own, so it is the user's alone.

// runtimeVariable names the runtime directory of daemon and ctl.
const runtimeVariable = "HEDDLE_RUNTIME_DIR"

// runtimeDir is where daemons of this user keep tokens and addresses. It does
// not depend on what a terminal happens to have in its environment, as far as
// that goes: root's is one for services and logins, and a user's login session
// is found without XDG_RUNTIME_DIR, too.
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

// makePrivate makes a directory for this user alone, or refuses one that
// somebody else has a hand in.
func makePrivate(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return private(dir)
}

// private refuses a directory that is another user's, or that others may write
// to.
func private(dir string) error {
	st, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := st.Sys().(*syscall.Stat_t)
	switch {
	case !st.IsDir():
		return fmt.Errorf("%s is no directory; remove it, or set %s", dir, runtimeVariable)
	case !ok || int(owner.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to another user; remove it, or set %s", dir, runtimeVariable)
	case st.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s can be written to by other users (mode %v); chmod it to 0700, or set %s", dir, st.Mode().Perm(), runtimeVariable)
	}
	return nil
}

// announcement is the file that holds the address of the API, and on a second
// line the token's file.
func announcement() string { return filepath.Join(runtimeDir(), "api") }

// announce tells ctl where the API is, and the token. The function that it
// returns takes that back, unless another daemon has announced itself since.
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

// announced is what a daemon of this user has announced; nothing if none has.
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

// findAPI is where ctl asks if it is not told, and the token's file: the daemon
// of this user that was started last, if it lives, else the default address.
func findAPI() (addr, token string) {
	addr, token = announced()
	network, at := "tcp", addr
	if sock, unix := strings.CutPrefix(addr, "unix:"); unix {
		network, at = "unix", sock
	}
	if addr != "" {
		if c, err := net.DialTimeout(network, at, 5*time.Second); err == nil {
			c.Close()
			return addr, token
		}
	}
	return defaultAPI, tokenPath(defaultAPI) // none, or it died without a word
}
