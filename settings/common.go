package settings

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
)

// ownSettings may differ between the managers of a subnet, although others of their group may not: those of this
// machine and its port, and names of files whose value is another setting.
var ownSettings = []string{
	"port", "once", "priority", "inactive", "claim-wait", "sm-key-file", "m-key-file", "sa-key-file", "cc-key-file",
	"sa-db", "sa-queue", "sa-queue-each", "smp-timeout", "smp-retries", "window", "window-start", "perf-window", "perf-history", "cc-window",
}

// commonSettings must be alike, although others of their group may differ.
var commonSettings = []string{"sm-lid", "cabling", "cabling-partial", "cabling-ignore"}

// Common reports whether all managers of a subnet should have the setting alike: what a subnet is like must not depend
// on who is master. Of a file that is so of its contents.
func (s *Setting) Common() bool {
	switch s.Group {
	case Serving, Running, Pair, Shared:
		return slices.Contains(commonSettings, s.Name)
	}
	return !slices.Contains(ownSettings, s.Name)
}

// InFile reports whether the setting names a file.
func (s *Setting) InFile() bool { return s.Arg == "FILE" }

// CommonValue is the value of a setting that managers should have alike, to be compared with that of another one. In
// place of the name of a file it is the hash of the contents that read returns. It may be a secret.
func (v *Values) CommonValue(s *Setting, read func(name string) ([]byte, error)) (string, error) {
	text := v.Text(s.Name)
	if !s.InFile() || text == "" {
		return text, nil
	}
	b, err := read(text)
	if err != nil {
		return "", fmt.Errorf("%s: %w", v.From(s.Name), err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}
