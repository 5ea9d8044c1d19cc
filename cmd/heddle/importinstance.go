package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"heddle/store/boltdb"
)

// Places of the packaged services (contrib/systemd/heddle@.service).
const (
	packageConfig = "/etc/heddle"
	packageState  = "/var/lib/heddle"
	packageUser   = "heddle"
)

// forInstance fills in the places of a packaged service. Several instances share heddle.yaml, and each
// OpenSM had options of its own.
func (x *opensmImport) forInstance(cmd *cobra.Command) error {
	if x.instance == "" {
		return nil
	}
	if x.instance != filepath.Base(x.instance) || strings.HasPrefix(x.instance, ".") {
		return usagef("--instance %q: want a port as in heddle@PORT, such as 0x0002c90300000001 or mlx5_0:1", x.instance)
	}
	if !cmd.Flags().Changed("state") {
		x.state = filepath.Join(packageState, x.instance)
	}
	if !cmd.Flags().Changed("out") {
		x.out = filepath.Join(packageConfig, x.instance+".yaml")
	}
	return nil
}

// nameConfig has the environment of an instance name its settings.
func (x *opensmImport) nameConfig() error {
	if x.instance == "" {
		return nil
	}
	out, err := filepath.Abs(x.out)
	if err != nil {
		return err
	}
	env := filepath.Join(filepath.Dir(out), x.instance+".env")
	text, err := os.ReadFile(env)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	line := "HEDDLE_CONFIG=" + out + "\n"
	for l := range strings.Lines(string(text)) {
		switch {
		case strings.TrimSpace(l) == strings.TrimSpace(line):
			return nil
		case strings.HasPrefix(l, "HEDDLE_CONFIG="):
			return fmt.Errorf("%s names another file: make it  %s", env, strings.TrimSpace(line))
		}
	}
	if len(text) > 0 && !strings.HasSuffix(string(text), "\n") {
		line = "\n" + line
	}
	file, err := os.OpenFile(env, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(line)
	return errors.Join(err, file.Close())
}

// giveToService has the user of the packaged services own the state of an instance, and their group read
// its settings. Without that user, or without the right to do so, both stay with whoever imports.
func (x *opensmImport) giveToService() error {
	u, err := user.Lookup(packageUser)
	if x.instance == "" || err != nil || os.Geteuid() != 0 {
		return nil
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return err
	}
	return errors.Join(giveConfig(x.out, gid), giveState(x.state, uid, gid))
}

// giveConfig has a group read a configuration. Nobody but its owner writes to the directory of it.
func giveConfig(file string, gid int) error {
	return errors.Join(os.Lchown(file, 0, gid), os.Chmod(file, 0o640))
}

// giveState gives a state directory and its file to a user. That user may own the directories by now, and
// put links there: no link is followed to what is another's.
func giveState(dir string, uid, gid int) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	above, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer above.Close()
	name := filepath.Base(dir)
	state, err := above.OpenRoot(name) // refuses a link that leads out
	if err != nil {
		return err
	}
	defer state.Close()
	return errors.Join(above.Lchown(name, uid, gid), state.Lchown(boltdb.FileName, uid, gid))
}

// ownState refuses a state that is a link: as root an import would write to whatever it leads to.
func ownState(dir string) error {
	for _, path := range [...]string{dir, filepath.Join(dir, boltdb.FileName)} {
		st, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case st.Mode()&fs.ModeSymlink != 0:
			return fmt.Errorf("%s is a link: the state of a service is a directory and a file", path)
		}
	}
	return nil
}
