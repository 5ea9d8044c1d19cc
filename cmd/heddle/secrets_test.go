package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"heddle/api"
	"heddle/internal/need"
)

// planted are the secrets of TestSecretsStay.
const (
	plantedM    = 0x1a2b3c4d5e6f7081
	plantedSM   = 0x2b3c4d5e6f708192
	plantedSA   = 0x3c4d5e6f708192a3
	plantedCC   = 0x4d5e6f708192a3b4
	plantedRead = "planted-token-to-read"
	plantedUFM  = "planted-ufm-password"
)

// shown is what a program wrote.
type shown struct {
	mu   sync.Mutex
	text bytes.Buffer  // guarded by mu
	more chan struct{} // closed when there is more; guarded by mu
}

func (s *shown) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.more != nil {
		close(s.more)
		s.more = nil
	}
	return s.text.Write(p)
}

func (s *shown) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await waits until the text matches, and returns the first group.
func (s *shown) await(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	limit := time.After(need.Patience)
	for {
		s.mu.Lock()
		if s.more == nil {
			s.more = make(chan struct{})
		}
		more := s.more
		m := re.FindStringSubmatch(s.text.String())
		s.mu.Unlock()
		if m != nil {
			return m[len(m)-1]
		}
		select {
		case <-more:
		case <-limit:
			t.Fatalf("nothing matches %s in\n%s", pattern, s)
		}
	}
}

// TestSecretsStay: a manager with secrets from files, variables and credentials uses them, and shows
// none of them: not in its log, not in answers of its API, metrics, events and audit log, and not in what
// commands of ctl print.
func TestSecretsStay(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		f := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(f), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return f
	}
	file("creds/m-key", fmt.Sprintf("%#x", uint64(plantedM)))
	file("creds/ufm-password", plantedUFM)
	t.Setenv(credentialsVariable, filepath.Join(dir, "creds"))
	t.Setenv("HEDDLE_SM_KEY_FILE", file("sm", strconv.FormatUint(plantedSM, 10)))
	t.Setenv(runtimeVariable, filepath.Join(dir, "run"))
	state, token := filepath.Join(dir, "state"), filepath.Join(dir, "token")
	root := newRoot()
	root.SetArgs([]string{
		"up", "--topo", "mesh,2x2", "--api", "127.0.0.1:0", "--socket", "secrets-" + filepath.Base(dir) + strconv.Itoa(os.Getpid()), "--state", state, "--token-file", token, "--log-level", "debug",
		"--sa-key-file", file("sa", fmt.Sprintf("%#x", uint64(plantedSA))), "--cc-key-file", file("cc", fmt.Sprintf("%#x", uint64(plantedCC))),
		"--api-read-token-file", file("read", plantedRead), "--ufm-listen", "127.0.0.1:0",
	})
	var out, log shown
	in, hold := io.Pipe() // the console's standard input, which stays open
	root.SetIn(in)
	root.SetOut(&out)
	root.SetErr(&log)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	defer slog.SetDefault(slog.Default())
	go func() { ended <- root.ExecuteContext(ctx) }()
	defer func() {
		stop()
		hold.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	addr := log.await(t, `page: +http://([0-9.:]+)/`)
	out.await(t, "SUBNET UP")
	b, err := os.ReadFile(token)
	if err != nil {
		t.Fatal(err)
	}
	write := strings.TrimSpace(string(b))

	ctl := func(args ...string) (string, error) {
		var text bytes.Buffer
		c := newRoot()
		c.SetArgs(append(append([]string{"ctl"}, args...), "--api", addr, "--token-file", token))
		c.SetIn(strings.NewReader(""))
		c.SetOut(&text)
		c.SetErr(&text)
		err := c.ExecuteContext(ctx)
		return text.String(), err
	}
	named, err := ctl("token", "create", "planted", "--role", "admin")
	if err != nil {
		t.Fatal(err, named)
	}
	named = strings.TrimSpace(named)
	secrets := map[string]string{"token": write, "named token": named[strings.LastIndex(named, ".")+1:], "token to read": plantedRead, "UFM password": plantedUFM}
	for name, k := range map[string]uint64{"M_Key": plantedM, "SM_Key": plantedSM, "SA key": plantedSA, "CC_Key": plantedCC} {
		secrets[name] = strconv.FormatUint(k, 16)
		secrets[name+" (decimal)"] = strconv.FormatUint(k, 10)
	}
	looked := 0
	clean := func(where, text string) {
		t.Helper()
		looked += len(text)
		for name, s := range secrets {
			if strings.Contains(strings.ToLower(text), strings.ToLower(s)) {
				t.Errorf("%s shows the %s", where, name)
			}
		}
	}
	ask := func(method, path, body string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+named)
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(resp.StatusCode, resp.Header, string(b))
	}

	// The keys are in use, and are where they belong.
	if text := ask("GET", "/v1/sa-key", ""); !strings.Contains(text, secrets["SA key"]) {
		t.Errorf("the SA key is not in use: %s", text)
	}
	if text := ask("GET", "/v1/backup", ""); !strings.Contains(text, secrets["M_Key"]) {
		t.Errorf("the M_Key is not in use: %.200s", text)
	}
	// Everything that can be asked or changed, with bodies that have secrets in them.
	for _, r := range api.Routes() {
		if r.Keys || strings.Contains(r.Path, "stream") || strings.Contains(r.Path, ":changes") {
			continue
		}
		path := strings.NewReplacer("{guid}", "0x1", "{num}", "1", "{pkey}", "0x5", "{name}", "nosuch", "{schema}", "VM.json").Replace(r.Path)
		body := ""
		if r.Method != http.MethodGet {
			body = `{"token":"` + named + `","m_key":"` + secrets["M_Key"] + `"}`
		}
		text := ask(r.Method, path, body)
		if r.Method == http.MethodGet { // others repeat what was wrong with their bodies
			clean(r.Method+" "+path, text)
		}
	}
	for _, c := range allCommands(newCtl()) {
		words := strings.Fields(c.CommandPath())[1:]
		name := strings.Join(words, " ")
		if !c.Runnable() || name == "sa-key" || name == "backup" || name == "support" || strings.HasPrefix(name, "ha certs") {
			continue
		}
		for _, more := range [][]string{nil, {"--json"}, {"nosuch"}} {
			text, err := ctl(append(words, more...)...)
			clean("ctl "+name, text+fmt.Sprint(err))
		}
	}
	if text, err := ctl("audit"); err != nil || !strings.Contains(text, "token:planted") || !strings.Contains(text, "GET /v1/backup") {
		t.Errorf("the audit log: %v\n%s", err, text)
	}
	bundle := filepath.Join(dir, "bundle.tar.gz")
	if text, err := ctl("support", "--seconds", "1", "--out", bundle); err != nil {
		t.Fatal(err, text)
	}
	for name, content := range untar(t, bundle) {
		clean("the support bundle's "+name, content)
	}
	clean("the log", log.String())
	clean("standard output", out.String())
	if err := filepath.WalkDir(filepath.Join(state, auditDir), func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		clean(p, string(b))
		return err
	}); err != nil {
		t.Error(err)
	}
	if looked < 100_000 {
		t.Errorf("only %d bytes were searched", looked)
	}
}

// untar reads a support bundle, with profiles unpacked. What it is to have is there.
func untar(t *testing.T, file string) map[string]string {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if st, err := in.Stat(); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the bundle has mode %v: %v", st.Mode(), err)
	}
	z, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		var from io.Reader = r
		if strings.HasSuffix(h.Name, ".pprof") {
			if from, err = gzip.NewReader(r); err != nil {
				t.Fatal(err)
			}
		}
		b, err := io.ReadAll(from)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(h.Name, "heddle-support/")] = string(b)
	}
	for name, want := range map[string]string{
		"status.json": `"subnet_up":true`, "settings.json": `"setting":"m-key","value":"set"`, "sweeps.json": `"phases":{`, "events.json": `"kind":"subnet_up"`,
		"audit.json": "token:planted", "topology.ibnetdiscover": "Topology file: generated", "metrics.txt": "heddle_", "goroutines.txt": "goroutine profile",
		"heap.pprof": "inuse_space", "trace.out": "go 1.", "version.txt": "", "repairs.json": "[", "vms.json": `"total":0`, "ports.json": "[", "cabling.json": `"planned":`, "findings.json": "",
	} {
		if text, ok := files[name]; !ok && name != "findings.json" || !strings.Contains(text, want) {
			t.Errorf("the bundle's %s has no %q: %.200s; %s", name, want, text, files["errors.txt"])
		}
	}
	return files
}

// TestSecretFiles: where a key comes from, what goes together, and what is warned of.
func TestSecretFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		t.Helper()
		f := filepath.Join(dir, name)
		if err := os.WriteFile(f, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return f
	}
	good, open, empty, bad := write("good", " 0x77\n", 0o600), write("open", "0x88", 0o644), write("empty", "\n", 0o600), write("bad", "planted", 0o600)
	write("m-key", "0x99", 0o400)
	none := filepath.Join(dir, "none")
	for _, c := range []struct {
		value, file, creds string
		want               uint64
		err, warns         string
	}{
		{want: 0},
		{value: "0x5", want: 5, warns: "give --m-key-file or HEDDLE_M_KEY_FILE"},
		{file: good, want: 0x77},
		{file: open, want: 0x88, warns: "0600"},
		{creds: dir, want: 0x99},
		{creds: none, want: 0},
		{value: "0x5", creds: dir, want: 5, warns: "ps"},
		{file: good, creds: dir, want: 0x77},
		{value: "0x5", file: good, err: "do not go together"},
		{file: none, err: "no such file"},
		{file: empty, err: "is empty"},
		{file: bad, err: "--m-key-file: want a 64-bit number"},
	} {
		t.Setenv(credentialsVariable, c.creds)
		f := newSMFlags()
		for name, text := range map[string]string{"m-key": c.value, "m-key-file": c.file} {
			if text != "" {
				if err := f.Set(name, text, "--"+name); err != nil {
					t.Fatal(err)
				}
			}
		}
		cfg, err := f.config("sm")
		if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: %v", c, err)
		}
		if err != nil {
			if strings.Contains(err.Error(), "planted") {
				t.Errorf("the error has the key: %v", err)
			}
			continue
		}
		var said bytes.Buffer
		f.warnSecrets(slog.New(slog.NewTextHandler(&said, nil)))
		if uint64(cfg.MKey) != c.want || strings.Contains(said.String(), c.warns) != (c.warns != "") && c.warns != "" || c.warns == "" && said.Len() > 0 {
			t.Errorf("%+v: M_Key %#x, warnings %q", c, uint64(cfg.MKey), said.String())
		}
	}
	// A variable is no flag: ps does not show it.
	f := newSMFlags()
	if err := errors.Join(f.Set("sa-key", "0x77", "HEDDLE_SA_KEY"), f.Set("sm-key", "0x78", "heddle.yaml:3:5: sm-key")); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	if f.warnSecrets(slog.New(slog.NewTextHandler(&said, nil))); said.Len() > 0 {
		t.Error(said.String())
	}
}
