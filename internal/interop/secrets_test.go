package interop

import (
	"archive/tar"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"heddle/api"
	"heddle/internal/etcdtest"
	"heddle/internal/need"
)

// planted collects secrets, in each form in which they could be seen, by name.
type planted map[string]string

func (p planted) text(name, secret string) string {
	p[name] = secret
	p[name+" in hex"] = hex.EncodeToString([]byte(secret))
	p[name+" in base64"] = strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(secret)), "=")
	return secret
}

func (p planted) key(name string, k uint64) string {
	p[name] = fmt.Sprintf("%x", k)
	p[name+" in decimal"] = strconv.FormatUint(k, 10)
	return fmt.Sprintf("%#x\n", k)
}

// pem plants a private key: its text, and its bytes as other formats show them.
func (p planted) pem(t *testing.T, name, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	block, _ := pem.Decode(b)
	if err != nil || block == nil || !strings.Contains(block.Type, "PRIVATE KEY") {
		t.Fatalf("%s is no private key: %v", file, err)
	}
	end := block.Bytes[len(block.Bytes)/2:]
	p.text(name+"'s bytes", string(end))
	p[name] = strings.Split(string(b), "\n")[2]
}

// found are the names of the secrets that a text shows.
func (p planted) found(text string) (names []string) {
	lower := strings.ToLower(text)
	for name, s := range p {
		if strings.Contains(text, s) || strings.Contains(lower, strings.ToLower(s)) {
			names = append(names, name)
		}
	}
	return names
}

// TestSecretsStay: two managers with one state in etcd use secrets of every kind, and show none of them:
// not in their logs, not in answers of the API, in metrics, events, the audit log and the support bundle.
func TestSecretsStay(t *testing.T) {
	dir := t.TempDir()
	secrets := planted{}
	file := func(name, text string) string {
		t.Helper()
		f := filepath.Join(dir, name)
		if err := os.WriteFile(f, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return f
	}
	must(t, upTime, dir, nil, heddle, "ctl", "ha", "certs", "--dir", "certs", "127.0.0.1", "127.0.0.2")
	own := func(i int, name string) string {
		return filepath.Join(dir, "certs", fmt.Sprintf("127.0.0.%d", i+1), name)
	}
	for i := range 2 {
		secrets.pem(t, fmt.Sprintf("TLS key of manager %d", i+1), own(i, "key.pem"))
	}
	shared, err := os.ReadFile(own(0, "secret"))
	if err != nil || len(strings.TrimSpace(string(shared))) < 16 {
		t.Fatalf("the secret of the managers: %q, %v", shared, err)
	}
	secrets.text("HA secret", strings.TrimSpace(string(shared)))
	password := secrets.text("etcd password", "planted-etcd-password")
	read := secrets.text("token to read", "planted-token-to-read-0123456789abcdef")
	signing := []byte("planted-webhook-secret-of-32-byte")
	secrets.text("webhook secret", string(signing))

	// etcd, with a user of its own.
	ca := own(0, "ca.pem")
	cluster := etcdtest.StartTLS(t, 1, etcdtest.TLS{CA: ca, Cert: own(0, "cert.pem"), Key: own(0, "key.pem")})
	for _, args := range [][]string{
		{"user", "add", "root:root"},
		{"user", "add", "heddle:" + password},
		{"role", "add", "manager"},
		{"role", "grant-permission", "manager", "--prefix=true", "readwrite", "/mine"},
		{"user", "grant-role", "root", "root"},
		{"user", "grant-role", "heddle", "manager"},
		{"auth", "enable"},
	} {
		cluster.Ctl(append([]string{"--cacert", ca, "--cert", own(1, "cert.pem"), "--key", own(1, "key.pem")}, args...)...)
	}

	var hooks atomic.Int32
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Webhook-Signature") != "" {
			hooks.Add(1)
		}
	}))
	defer target.Close()
	file("hook", "whsec_"+base64.StdEncoding.EncodeToString(signing)+"\n")
	file("webhooks.yaml", "targets:\n  - {name: one, url: \""+target.URL+"\", secret-file: hook}\n")

	b := testNet{name: "secrets", gen: []string{"mesh", "2x2"}}.build(t)
	_, env := b.simulate(t)
	ports := need.Port(t, 4)
	manager := func(i int) program {
		return start(
			t, dir, nil, heddle, "sm", "--port", "ibsim:"+b.cas[i]+"@"+strings.TrimPrefix(env[0], "IBSIM_SOCKNAME="), "--log-level", "debug",
			"--store", "etcd://"+strings.Join(cluster.Endpoints(), ",")+"/mine", "--etcd-ca", ca, "--etcd-cert", own(i, "cert.pem"), "--etcd-key", own(i, "key.pem"),
			"--etcd-user", "heddle", "--etcd-password-file", file("etcd-password", password+"\n"),
			"--peer", fmt.Sprintf("127.0.0.%d:%d", 2-i, ports+1-i), "--ha-listen", fmt.Sprintf("127.0.0.%d:%d", i+1, ports+i), "--ha-dir", filepath.Dir(own(i, "secret")),
			"--api", fmt.Sprintf("127.0.0.%d:%d", i+1, ports+2+i), "--api-tls-cert", own(i, "cert.pem"), "--api-tls-key", own(i, "key.pem"), "--token-file", fmt.Sprint("token", i),
			"--api-read-token-file", file("read", read+"\n"), "--webhooks", "webhooks.yaml", "--priority", fmt.Sprint(9-i),
			"--m-key-file", file("m", secrets.key("M_Key", 0x1a2b3c4d5e6f7081)), "--sm-key-file", file("sm", secrets.key("SM_Key", 0x2b3c4d5e6f708192)),
			"--sa-key-file", file("sa", secrets.key("SA key", 0x3c4d5e6f708192a3)), "--cc-key-file", file("cc", secrets.key("CC_Key", 0x4d5e6f708192a3b4)),
		)
	}
	first := manager(0)
	first.await("SUBNET UP\n", 0, upTime)
	second := manager(1)
	second.await("serving the API", 0, upTime)
	text, err := os.ReadFile(filepath.Join(dir, "token0"))
	if err != nil {
		t.Fatal(err)
	}
	token := secrets.text("token", strings.TrimSpace(string(text)))

	pool := x509.NewCertPool()
	if pemCA, err := os.ReadFile(ca); err != nil || !pool.AppendCertsFromPEM(pemCA) {
		t.Fatal(err)
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	defer c.CloseIdleConnections()
	looked := 0
	clean := func(where, text string) {
		t.Helper()
		looked += len(text)
		for _, name := range secrets.found(text) {
			t.Errorf("%s shows the %s", where, name)
		}
	}
	for i := range 2 {
		for _, r := range api.Routes() {
			if r.Method != http.MethodGet || r.Keys || strings.Contains(r.Path, "stream") || strings.Contains(r.Path, ":changes") {
				continue
			}
			path := strings.NewReplacer("{guid}", "0x1", "{num}", "1", "{pkey}", "0x5", "{name}", "nosuch", "{schema}", "VM.json").Replace(r.Path)
			q, err := http.NewRequestWithContext(t.Context(), r.Method, fmt.Sprintf("https://127.0.0.%d:%d%s", i+1, ports+2+i, path), nil)
			if err != nil {
				t.Fatal(err)
			}
			q.Header.Set("Authorization", "Bearer "+read)
			resp, err := c.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			clean(fmt.Sprintf("manager %d, GET %s", i+1, path), fmt.Sprint(resp.Header, string(body)))
		}
	}
	at := []string{"--api", fmt.Sprintf("https://127.0.0.1:%d", ports+2), "--ca", ca, "--token-file", file("write", token+"\n")}
	for _, args := range [][]string{{"status"}, {"ha", "status"}, {"events"}, {"audit"}, {"reload"}, {"token", "list"}} {
		clean("ctl "+strings.Join(args, " "), must(t, upTime, dir, nil, heddle, append(append([]string{"ctl"}, args...), at...)...))
	}
	must(t, upTime, dir, nil, heddle, append([]string{"ctl", "support", "--seconds", "1", "--out", "bundle"}, at...)...)
	eachFile(t, filepath.Join(dir, "bundle"), func(name, content string) { clean("the support bundle's "+name, content) })
	eventually(t, "an event was sent", func() bool { return hooks.Load() > 0 })
	first.stop(syscall.SIGTERM)  //nolint:errcheck // the log is what counts
	second.stop(syscall.SIGTERM) //nolint:errcheck // as above
	clean("the first log", first.Output())
	clean("the second log", second.Output())
	if looked < 200_000 {
		t.Errorf("only %d bytes were searched", looked)
	}

	// What is planted would be found.
	for name, s := range secrets {
		if len(secrets.found("x"+s+"y")) == 0 || len(s) < 8 {
			t.Errorf("%s cannot be found", name)
		}
	}
}

// eachFile reads a compressed archive, and unpacks what is compressed once more.
func eachFile(t *testing.T, archive string, fn func(name, content string)) {
	t.Helper()
	in, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	z, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for r := tar.NewReader(z); ; n++ {
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
		fn(h.Name, string(b))
	}
	if n < 10 {
		t.Errorf("the bundle has %d files", n)
	}
}
