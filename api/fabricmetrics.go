package api

import (
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// FabricMetrics chooses what /metrics/fabric shows.
type FabricMetrics struct {
	Guilbaults bool // the names of guilbaults/infiniband-exporter, otherwise of treydock's
	Shard, Of  int  // shard Shard of Of, from 0; Of 0: everything
	Sparse     bool // error counters that were never above 0 are left out
}

// maxShards bounds Of.
const maxShards = 4096

// fabricQuery reads the parameters of /metrics/fabric: names=treydock|guilbaults, shard=i with of=n,
// or shard=i/n, and errors=all|seen.
func fabricQuery(r *http.Request) (q FabricMetrics, why string) {
	v := r.URL.Query()
	switch v.Get("names") {
	case "", "treydock":
	case "guilbaults":
		q.Guilbaults = true
	default:
		return q, "names: want treydock or guilbaults"
	}
	switch v.Get("errors") {
	case "", "all":
	case "seen":
		q.Sparse = true
	default:
		return q, "errors: want all or seen"
	}
	shard, of, both := strings.Cut(v.Get("shard"), "/")
	if !both {
		of = v.Get("of")
	}
	if shard == "" && of == "" {
		return q, ""
	}
	i, err := strconv.Atoi(shard)
	n, err2 := strconv.Atoi(of)
	if err != nil || err2 != nil || n < 1 || n > maxShards || i < 0 || i >= n {
		return q, "shard: want shard=I&of=N with 0 <= I < N <= " + strconv.Itoa(maxShards)
	}
	q.Shard, q.Of = i, n
	return q, ""
}

// gzips are compressors, of more than a megabyte each. The fastest level makes a shard of 11 MB one of
// half a megabyte, in little more time than it takes to write it; more takes longer and gains nothing.
var gzips = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
	return z
}}

// fabricMetrics serves the counters of the fabric as a stream, compressed if the client takes that.
func fabricMetrics(b Counting) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, why := fabricQuery(r)
		if why != "" {
			refuse(w, http.StatusBadRequest, why)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		w.Header().Set("Vary", "Accept-Encoding")
		var out io.Writer = w
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzips.Get().(*gzip.Writer)
			z.Reset(w)
			defer func() {
				_ = z.Close()
				z.Reset(io.Discard) // it keeps no response
				gzips.Put(z)
			}()
			out = z
		}
		_ = b.FabricMetrics(out, q) // the client has gone
	}
}
