package api

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http/httptest"
	"sync"
	"testing"
)

// TestFabricMetricsGzip: clients that take compressed responses get them, each its own, although
// compressors are used again.
func TestFabricMetricsGzip(t *testing.T) {
	h := New(&fake{}, Options{})
	ask := func(shard int, accept string) string {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", fmt.Sprintf("/metrics/fabric?shard=%d&of=16", shard), nil)
		r.Host = "127.0.0.1"
		r.Header.Set("Accept-Encoding", accept)
		h.ServeHTTP(w, r)
		var body io.Reader = w.Body
		if w.Header().Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(body)
			if err != nil {
				return err.Error()
			}
			body = z
		} else if accept != "" {
			return "it is not compressed"
		}
		b, err := io.ReadAll(body)
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	var all sync.WaitGroup
	for shard := range 16 {
		all.Go(func() {
			for range 20 {
				want := fmt.Sprintf("{Guilbaults:false Shard:%d Of:16 Sparse:false}", shard)
				for _, accept := range []string{"", "gzip"} {
					if got := ask(shard, accept); got != want {
						t.Errorf("shard %d, %q: %s", shard, accept, got)
					}
				}
			}
		})
	}
	all.Wait()
}
