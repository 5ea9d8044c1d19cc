package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"heddle/settings"
)

// credentialsVariable names the directory with the credentials of a service (LoadCredential= and
// SetCredential= of systemd).
const credentialsVariable = "CREDENTIALS_DIRECTORY"

// maxSecret bounds a file with a key, in bytes.
const maxSecret = 4096

// readSecrets sets the settings whose values are in files, or are credentials of the service. A
// credential counts if nothing else was given.
func (f smFlags) readSecrets(command string) error {
	dir := os.Getenv(credentialsVariable)
	taken := settings.Of(command)
	for _, s := range settings.SecretFiles() {
		if !slices.Contains(taken, settings.Find(s.Setting)) {
			continue
		}
		if err := f.CheckSecret(s); err != nil {
			return &usageError{err}
		}
		file, from := f.Text(s.Setting), f.From(s.Setting)
		if file == "" && dir != "" && (s.Value == "" || !f.Given(s.Value)) {
			at := filepath.Join(dir, s.Credential)
			switch _, err := os.Stat(at); {
			case err == nil:
				file, from = at, "$"+credentialsVariable+"/"+s.Credential
			case !errors.Is(err, fs.ErrNotExist):
				return fmt.Errorf("credential: %w", err)
			}
		}
		if file == "" {
			continue
		}
		name, text := s.Setting, file
		if s.Value != "" {
			var err error
			if text, err = readSecret(file); err != nil {
				return fmt.Errorf("%s: %w", from, err)
			}
			name = s.Value
		}
		if err := f.Set(name, text, from); err != nil {
			return &usageError{err}
		}
	}
	return nil
}

// readSecret reads a key from a file, without white space at its ends.
func readSecret(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if len(b) > maxSecret {
		return "", fmt.Errorf("%s: larger than the limit of %d bytes", file, maxSecret)
	}
	text := strings.TrimSpace(string(b))
	if text == "" {
		return "", fmt.Errorf("%s is empty", file)
	}
	return text, nil
}

// warnSecrets warns of secrets that others can see: on the command line, or in files.
func (f smFlags) warnSecrets(log *slog.Logger) {
	for _, s := range settings.SecretFiles() {
		if s.Value != "" && f.Given(s.Value) && f.From(s.Value) == "--"+s.Value && f.Text(s.Value) != "0" {
			log.Warn("every user of this machine can see the key on the command line (ps); give --"+s.Setting+" or "+envName(s.Setting)+" in place of --"+s.Value,
				"kind", "open_configuration")
		}
		warnOpen(log, f.Text(s.Setting))
	}
}

// warnOpen warns of a file with a secret that others can read.
func warnOpen(log *slog.Logger, file string) {
	if st, err := os.Stat(file); file != "" && err == nil && st.Mode().Perm()&0o077 != 0 {
		log.Warn("other users can read a file with a secret; change its mode to 0600", "file", file, "kind", "open_configuration")
	}
}
