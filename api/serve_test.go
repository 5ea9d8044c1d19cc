package api

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"heddle/access"
	"heddle/api/listen"
	"heddle/internal/need"
)

func TestOwnersSocket(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	path := filepath.Join(t.TempDir(), "run", "api.sock")
	l, err := listen.Unix(path)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode() != os.ModeSocket|0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if st, err := os.Stat(filepath.Dir(path)); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("mode of the directory %v, %v", st.Mode(), err)
	}

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	f := newFake(0)
	go func() { ended <- listen.Serve(ctx, l, New(f, Options{AllowWrite: true})) }()
	if _, err := listen.Unix(path); err == nil {
		t.Error("a socket that another daemon serves was taken over")
	}
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	resp, err := client.Post("http://heddle/v1/sweep", "", nil)
	if err != nil || resp.StatusCode != http.StatusAccepted || f.sweeps != 1 {
		t.Errorf("a sweep over the socket: %v, %v", resp, err)
	}
	client.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}

	// What a daemon that was killed leaves behind is replaced …
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	l, err = listen.Unix(path)
	if err != nil {
		t.Fatalf("a stale socket: %v", err)
	}
	l.Close()
	// … but nothing else.
	file := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := listen.Unix(file); err == nil {
		t.Error("a file was replaced by the socket")
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "x" {
		t.Errorf("the file is %q, %v", b, err)
	}
}

func TestToken(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	path := filepath.Join(t.TempDir(), "run", "token")
	a, err := NewToken(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewToken(path)
	if err != nil {
		t.Fatal(err)
	}
	if a == b || len(a) < 20 {
		t.Errorf("tokens %q, %q", a, b)
	}
	text, err := os.ReadFile(path)
	if err != nil || strings.TrimSpace(string(text)) != b {
		t.Errorf("the file has %q, %v", text, err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if list, err := os.ReadDir(filepath.Dir(path)); err != nil || len(list) != 1 {
		t.Errorf("left over: %v, %v", list, err)
	}
	if _, err := NewToken("/proc/no/token"); err == nil {
		t.Error("no error where nothing can be written")
	}
}

// TestHeldConnections: a client that holds all connections open blocks neither health
// probes nor requests with a token, and others get at least a refusal.
func TestHeldConnections(t *testing.T) {
	const token = "a-token-0123456789"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	bounded := listen.Bound(l, 4, 3)
	go func() { ended <- listen.Serve(ctx, bounded, New(newFake(1), Options{Token: token})) }()
	get := func(path, token string) int {
		t.Helper()
		c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		r, _ := http.NewRequest(http.MethodGet, "http://"+l.Addr().String()+path, nil)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := c.Do(r)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		defer resp.Body.Close()
		io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	var held []net.Conn
	hold := func(n int) {
		for range n {
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, c)
		}
	}
	if code := get("/v1/status", ""); code != 200 {
		t.Errorf("status %d while nobody is there", code)
	}
	for bounded.Open() > 0 { // the server has yet to notice that the first one is closed
		runtime.Gosched()
	}
	hold(4)
	for _, more := range []int{0, 20} { // the reserve too
		hold(more)
		for _, c := range []struct {
			path, token string
			want        int
		}{{"/healthz", "", 200}, {"/readyz", "", 200}, {"/v1/status", "", 503}, {"/v1/status", token, 200}, {"/v1/status", "x" + token, 401}} {
			if code := get(c.path, c.token); code != c.want {
				t.Errorf("%d connections are held: %s, token %v: %d, want %d", len(held), c.path, c.token != "", code, c.want)
			}
		}
	}
	for _, c := range held {
		c.Close()
	}
	for get("/v1/status", "") != 200 { // once the server has noticed
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestStreamsAreBounded: streams are bounded per client, in all, and separately for
// clients with a token; a closed stream frees its place.
func TestStreamsAreBounded(t *testing.T) {
	var l streamLimit
	open := func(addr string, token bool) func() {
		r := httptest.NewRequest(http.MethodGet, "/v1/events/stream", nil)
		r.RemoteAddr = addr
		return l.begin(r.WithContext(context.WithValue(r.Context(), callerKey{}, access.Caller{Known: token})))
	}
	count := func(addr func(i int) string, token bool) (ends []func()) {
		for i := range 1000 {
			if end := open(addr(i), token); end != nil {
				ends = append(ends, end)
			}
		}
		return ends
	}
	local := count(func(i int) string { return fmt.Sprintf("127.0.%d.%d:1", i/250, i%250+1) }, false)
	one := count(func(int) string { return "192.0.2.1:5" }, false)
	rest := count(func(i int) string { return fmt.Sprintf("192.0.2.%d:5", i%250+2) }, false)
	tokens := count(func(int) string { return "127.0.0.1:5" }, true)
	if len(local) != maxClientStreams || len(one) != maxStreams-maxClientStreams || len(rest) != 0 || len(tokens) != maxStreams {
		t.Errorf("%d streams of local users, %d of one address, %d of others, %d with a token", len(local), len(one), len(rest), len(tokens))
	}
	for _, list := range [][]func(){local, one, tokens} {
		for _, end := range list {
			end()
		}
	}
	if l.open != 0 || l.token != 0 || len(l.byClient) != 0 {
		t.Errorf("places are lost: %d, %d, %v", l.open, l.token, l.byClient)
	}
	if end := open("127.0.0.1:1", false); end == nil {
		t.Error("no stream after all were closed")
	}
	h := New(newFake(0), Options{})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	refused := make(chan bool, 2*maxClientStreams)
	for range 2 * maxClientStreams {
		wg.Go(func() {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/v1/events/stream", nil).WithContext(ctx)
			r.RemoteAddr = "127.0.0.1:99"
			h.ServeHTTP(w, r)
			if w.Code == http.StatusServiceUnavailable {
				refused <- true
			}
		})
	}
	for range maxClientStreams {
		<-refused
	}
	cancel()
	wg.Wait()
	if len(refused) != 0 {
		t.Errorf("%d streams more were refused", len(refused))
	}
}

// TestServeEnds: an open stream does not delay the shutdown.
func TestServeEnds(t *testing.T) {
	l, err := listen.API("127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error) // a stream that is not over after need.Patience shows
	go func() { ended <- listen.ServeFor(ctx, l, New(newFake(1), Options{}), need.Patience) }()
	resp, err := http.Get("http://" + l.Addr().String() + "/v1/events/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Errorf("the stream did not end well: %v", err)
	}
}
