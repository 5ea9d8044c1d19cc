package api

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/fabric/slurm"
)

// Netlist and Slurm of the fake are those of two hosts at a switch.
func (f *fake) Netlist() (func(io.Writer) error, uint64, error) {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, "netlist\n")
		return err
	}, 7, f.err
}

func (f *fake) Slurm(o slurm.Options) (*slurm.Topology, uint64, error) {
	var b fabric.Builder
	sw := b.AddSwitch("s", 4)
	for i, host := range []string{"n1", "n2"} {
		b.Connect(sw, i+1, b.AddCA(host, 1), 1)
	}
	net, err := b.Build()
	if err != nil {
		return nil, 0, err
	}
	t, err := slurm.New(net, o)
	return t, 7, err
}

// TestTopologies: formats, refusals, and 304 for a client that has this state.
func TestTopologies(t *testing.T) {
	h := New(newFake(0), Options{})
	get := func(path, tag string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil)
		if tag != "" {
			r.Header.Set("If-None-Match", tag)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for path, want := range map[string]string{
		"/v1/topology/ibnetdiscover":             "netlist\n",
		"/v1/topology/slurm":                     "Nodes=n[1-2]\n",
		"/v1/topology/slurm?format=yaml&rails=1": "nodes: \"n[1-2]\"\n",
		"/v1/topology/slurm?block=2":             "BlockSizes=2\n",
		"/v1/topology/slurm?block=2&format=yaml": "block_sizes: [2]\n",
		"/v1/rails":                              `"misplaced":[]`,
	} {
		w := get(path, "")
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, want %s", path, w.Code, w.Body, want)
		}
		if path == "/v1/rails" {
			continue
		}
		if w := get(path, w.Header().Get("ETag")); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
			t.Errorf("%s again: %d %s", path, w.Code, w.Body)
		}
	}
	for path, code := range map[string]int{
		"/v1/topology/slurm?format=xml": http.StatusBadRequest,
		"/v1/topology/slurm?rails=0":    http.StatusBadRequest,
		"/v1/topology/slurm?block=x":    http.StatusBadRequest,
		"/v1/topology/slurm?block=0":    http.StatusBadRequest,
		"/v1/topology/slurm?block=3":    http.StatusServiceUnavailable,
		"/v1/topology/slurm?rails=2":    http.StatusServiceUnavailable,
	} {
		if w := get(path, ""); w.Code != code {
			t.Errorf("%s: %d %s, want %d", path, w.Code, w.Body, code)
		}
	}
}

// TestTagOfAnotherProcess: states are numbered anew after a restart or a takeover, so a tag from before
// gives the text even if the number is the same.
func TestTagOfAnotherProcess(t *testing.T) {
	get := func(h http.Handler, tag string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "http://localhost/v1/topology/slurm", nil)
		r.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	before := get(New(newFake(0), Options{}), "").Header().Get("ETag")
	if w := get(New(newFake(0), Options{}), before); w.Code != http.StatusOK || w.Body.Len() == 0 {
		t.Errorf("with the tag %s of another process: %d %q", before, w.Code, w.Body)
	}
}
