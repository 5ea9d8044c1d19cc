package webhook

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"

	"heddle/api/kinds"
)

// Target is where events are sent.
type Target struct {
	Name    string
	URL     string
	Secrets [][]byte // each signs
	Kinds   []string // as api.EventsQuery.Kinds
	Level   string   // at least; empty: any
	Batch   int      // most events of a request, 1 to mostBatch; 0: each event is a request, and no list

	SecretFile string // from which Secrets were read, if from one
}

// host is the URL without what may be a key.
func (t *Target) host() string {
	u, err := url.Parse(t.URL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

const (
	mostTargets            = 32
	mostBatch              = 1000
	leastSecret, maxSecret = 24, 64 // bytes, by Standard Webhooks
)

// Parse reads targets, whose secrets are in files; relative names are below dir.
func Parse(b []byte, dir string) ([]Target, error) {
	var file struct {
		Targets []struct {
			Name       string   `yaml:"name"`
			URL        string   `yaml:"url"`
			SecretFile string   `yaml:"secret-file"`
			Kinds      []string `yaml:"kinds"`
			Level      string   `yaml:"level"`
			Batch      int      `yaml:"batch"`
		} `yaml:"targets"`
	}
	if err := yaml.NewDecoder(bytes.NewReader(b), yaml.Strict()).Decode(&file); errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty; 'targets: []' is a list without targets")
	} else if err != nil {
		return nil, errors.New(yaml.FormatError(err, false, false)) // without lines of the file: a url may have a key
	}
	if len(file.Targets) > mostTargets {
		return nil, fmt.Errorf("%d targets: want at most %d", len(file.Targets), mostTargets)
	}
	var list []Target
	seen := map[string]bool{}
	for i, t := range file.Targets {
		fail := func(format string, a ...any) ([]Target, error) {
			return nil, fmt.Errorf("target %d (%q): %w", i+1, t.Name, fmt.Errorf(format, a...))
		}
		if t.Name == "" || seen[t.Name] || len(t.Name) > 64 {
			return fail("want a name of its own with 1 to 64 bytes")
		}
		seen[t.Name] = true
		u, err := url.Parse(t.URL)
		if err != nil || u.Host == "" {
			return fail("want an absolute url") // the error would show it, with a key that it may have
		}
		if ip := net.ParseIP(u.Hostname()); u.Scheme != "https" && !(u.Scheme == "http" && (ip != nil && ip.IsLoopback() || u.Hostname() == "localhost")) {
			return fail("want a url with https; http is for this machine alone")
		}
		switch t.Level {
		case "", "info", "warn", "error":
		default:
			return fail("level %q: want info, warn or error", t.Level)
		}
		for _, k := range t.Kinds {
			if err := kinds.Check(k); err != nil { // it would match nothing, and nobody would notice
				return fail("kinds: %w", err)
			}
		}
		if t.Batch < 0 || t.Batch > mostBatch {
			return fail("batch %d: want 1 to %d events, or 0 for a request for each event", t.Batch, mostBatch)
		}
		if !filepath.IsAbs(t.SecretFile) {
			t.SecretFile = filepath.Join(dir, t.SecretFile)
		}
		s, err := os.ReadFile(t.SecretFile)
		if err != nil {
			return fail("secret-file: %w", err)
		}
		secrets, err := ParseSecrets(string(s))
		if err != nil {
			return fail("secret-file: %w", err)
		}
		list = append(list, Target{Name: t.Name, URL: t.URL, Secrets: secrets, Kinds: t.Kinds, Level: t.Level, Batch: t.Batch, SecretFile: t.SecretFile})
	}
	return list, nil
}

// ParseSecrets reads secrets, one a line: whsec_ and 24 to 64 bytes in base64.
func ParseSecrets(text string) (list [][]byte, err error) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		b, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(line, "whsec_"))
		if err != nil || len(b) < leastSecret || len(b) > maxSecret {
			return nil, fmt.Errorf("want whsec_ and %d to %d bytes in base64 in each line", leastSecret, maxSecret)
		}
		list = append(list, b)
	}
	if len(list) == 0 {
		return nil, errors.New("the file is empty")
	}
	return list, nil
}
