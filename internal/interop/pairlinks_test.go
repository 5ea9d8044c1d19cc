package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"heddle/api"
	"heddle/internal/need"
)

// toxiproxy passes the streams of two managers, and does them harm.
type toxiproxy struct {
	t   *testing.T
	url string
}

// startToxiproxy has the proxies a and b listen on the ports first and first+1.
func startToxiproxy(t *testing.T, dir string, api, first int, upstream [2]int) *toxiproxy {
	t.Helper()
	name := filepath.Join(dir, "toxiproxy")
	build := exec.Command("go", "build", "-modfile=../../tools/go.mod", "-o", name, "github.com/Shopify/toxiproxy/v2/cmd/server")
	if out, err := build.CombinedOutput(); err != nil {
		need.Missing(t, "toxiproxy", fmt.Sprintf("%v: %s", err, out))
	}
	start(t, dir, nil, name, "-host", "127.0.0.1", "-port", fmt.Sprint(api))
	x := &toxiproxy{t, fmt.Sprintf("http://127.0.0.1:%d/", api)}
	for end := time.Now().Add(need.Patience); x.try("GET", "version", nil) != nil; {
		if time.Now().After(end) {
			t.Fatal("toxiproxy does not answer")
		}
		<-time.After(10 * time.Millisecond)
	}
	for i, n := range proxies {
		x.do("POST", "proxies", map[string]any{
			"name": n, "listen": fmt.Sprintf("127.0.0.1:%d", first+i), "upstream": fmt.Sprintf("127.0.0.1:%d", upstream[i]), "enabled": true,
		})
	}
	return x
}

var proxies = [2]string{"a", "b"}

func (x *toxiproxy) try(method, path string, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(method, x.url+path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, res.Status, text)
	}
	return err
}

func (x *toxiproxy) do(method, path string, body any) {
	x.t.Helper()
	if err := x.try(method, path, body); err != nil {
		x.t.Fatal(err)
	}
}

// harm does harm to the given directions of both streams. Everything is well again after x.do("POST", "reset", nil).
func (x *toxiproxy) harm(kind string, attributes map[string]int, directions ...string) {
	x.t.Helper()
	for _, n := range proxies {
		for _, d := range directions {
			x.do("POST", "proxies/"+n+"/toxics", map[string]any{"name": kind + d, "type": kind, "stream": d, "attributes": attributes})
		}
	}
}

// TestPairLinks: the connection of two managers is slow, cut, silent, or works in one direction only.
// Changes go on to be acknowledged, and none is lost when the active manager is killed then.
func TestPairLinks(t *testing.T) {
	b := testNet{name: "small", gen: []string{"xgft", "2", "4,4", "1,2"}}.build(t)
	_, env := b.simulate(t)
	p := newPair(t, &b, strings.TrimPrefix(env[0], "IBSIM_SOCKNAME="))
	first := need.Port(t, 3)
	x := startToxiproxy(t, b.dir, first, first+1, p.ports)
	p.via = [2]int{first + 1, first + 2}
	p.start(0)
	p.start(1)
	p.paired()
	r := p.register(b.cas[3], 4*time.Second)
	both := []string{"upstream", "downstream"}
	cases := []struct {
		name string
		harm func()
	}{
		{"50 ms", func() { x.harm("latency", map[string]int{"latency": 50, "jitter": 10}, both...) }},
		{"500 ms", func() { x.harm("latency", map[string]int{"latency": 500, "jitter": 100}, both...) }},
		{"64 kB/s", func() { x.harm("bandwidth", map[string]int{"rate": 64}, both...) }},
		{"slices", func() {
			x.harm("slicer", map[string]int{"average_size": 20, "size_variation": 10, "delay": 100}, both...)
		}},
		{"black hole", func() { x.harm("timeout", map[string]int{"timeout": 0}, both...) }},
		{"one direction", func() { x.harm("timeout", map[string]int{"timeout": 0}, both[0]) }},
		{"other direction", func() { x.harm("timeout", map[string]int{"timeout": 0}, both[1]) }},
		{"resets", func() { x.harm("reset_peer", map[string]int{"timeout": 300}, both...) }},
	}
	if os.Getenv("HEDDLE_LONG") == "" {
		cases = cases[4:5] // each takes seconds
	}
	for _, c := range cases {
		active := p.paired()
		at := time.Now()
		c.harm()
		r.after(time.Now(), 5)
		gap := r.longest(at)
		h := [2]api.HA{p.ha(0), p.ha(1)}
		t.Logf("%s: longest time without an acknowledgment %v; then %s and %s", c.name, gap, h[active].State, h[1-active].State)
		if h[1-active].State != "paired" {
			// The active one has changes that nobody else has, and says so.
			if h[active].State != "alone" && h[active].State != "waiting" {
				t.Errorf("%s: the active manager is %s, the other one %s", c.name, h[active].State, h[1-active].State)
			}
			x.do("POST", "reset", nil)
			p.paired()
		}
		p.prog[active].stop(syscall.SIGKILL)
		r.after(time.Now(), 5)
		x.do("POST", "reset", nil)
		p.start(active)
	}
	p.paired()
	p.stored(r)
}

// longest is the longest time without an acknowledgment since t.
func (r *registrar) longest(t time.Time) (gap time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.acked {
		if a.at.After(t) {
			gap = max(gap, a.at.Sub(t))
			t = a.at
		}
	}
	return gap
}
