package main

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"heddle/api"
	"heddle/sa"
)

// saKeyFile is the name of the SA key's file in the state directory.
const saKeyFile = "sa-key"

// chooseSAKey is the key that makes SA requests trusted; 0: none does. A random key is
// kept in the state directory, if there is one, and otherwise lives as long as this
// process.
func (f smFlags) chooseSAKey(log *slog.Logger) (uint64, error) {
	switch state := f.Files.State; {
	case !f.SAKey.Given && state == "":
		return newSAKey(), nil
	case !f.SAKey.Given:
		return keptSAKey(filepath.Join(state, saKeyFile), log)
	case f.SAKey.Key == sa.PublicKey:
		log.Warn(f.From("sa-key")+" 1 is the default of OpenSM, which every host knows: any host can read keys, and enter partitions by alias GUIDs; omit the setting for a random key ('heddle ctl sa-key' prints it)",
			"kind", "open_configuration")
	}
	return f.SAKey.Key, nil
}

// newSAKey is a random key, neither 0 nor the public one.
func newSAKey() uint64 {
	var b [8]byte
	for {
		rand.Read(b[:])
		if k := binary.BigEndian.Uint64(b[:]); k > sa.PublicKey {
			return k
		}
	}
}

// keptSAKey reads the key from its file, which the first start creates, readable by its
// owner alone.
func keptSAKey(path string, log *slog.Logger) (uint64, error) {
	b, err := os.ReadFile(path)
	if err == nil {
		key, perr := strconv.ParseUint(strings.TrimSpace(string(b)), 0, 64)
		if perr != nil || key <= sa.PublicKey {
			return 0, fmt.Errorf("%s: want a 64-bit number above 1; repair the file, remove it for a new key, or use --sa-key", path)
		}
		if st, serr := os.Stat(path); serr == nil && st.Mode().Perm()&0o077 != 0 {
			log.Warn("other users can read the file of the SA key; change its mode to 0600, or remove it and start again for a new key", "file", path, "kind", "open_configuration")
		}
		return key, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("SA key: %w", err)
	}
	key := newSAKey()
	err = makeStateDir(filepath.Dir(path)) // with a state in etcd nothing else is kept there
	if err == nil {
		err = writePrivate(path, fmt.Sprintf("0x%016x\n", key))
	}
	if err != nil {
		log.Warn("the SA key cannot be stored; the next start makes another one", "err", err)
	}
	return key, nil
}

// writePrivate writes a file that only its owner may read. The write is atomic.
func writePrivate(path, text string) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = io.WriteString(tmp, text)
	if err == nil {
		err = tmp.Sync()
	}
	if err := errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

func ctlSAKey() *cobra.Command {
	c := ctlCommand("sa-key", "Print the key that makes SA requests trusted", http.MethodGet, "/v1/sa-key", func(w io.Writer, body []byte) error {
		var k api.SAKey
		if err := json.Unmarshal(body, &k); err != nil {
			return err
		}
		if k.Key == "" {
			return errors.New("the manager trusts no key (--sa-key 0)")
		}
		_, err := fmt.Fprintln(w, k.Key)
		return err
	})
	c.Long = `Prints the SM_Key that makes an SA request trusted, in the format of tools. The
API returns it only with the daemon's token, or over its Unix socket.`
	c.Example = `  saquery --smkey $(heddle ctl sa-key) PKTR`
	return c
}
