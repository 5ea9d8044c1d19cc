package daemon_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/api"
	"heddle/daemon"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/store"
)

// put replaces the partitions and returns the status and the body of the answer.
func put(t *testing.T, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPut, url+"/v1/partitions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer secret")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// TestPartitionsOverTheAPI: a replacement of the partitions is answered when it is stored. If
// it fails, the answer says why, and the old partitions stay. The API shows the progress of
// writing P_Key tables until it is complete.
func TestPartitionsOverTheAPI(t *testing.T) {
	full := make(chan struct{})
	st := &fullStore{Store: store.NewMemory(), full: full}
	r := newRigWith(t, func(c *daemon.Config) { c.Store = st }, "xgft", "2", "4,4", "1,2")
	srv := httptest.NewServer(api.New(r.d, api.Options{Token: "secret"}))
	defer srv.Close()
	snap := r.awaitUp()
	settled := func(pkeys ...string) {
		t.Helper()
		var p api.Partitions
		for end := time.Now().Add(need.Patience); time.Now().Before(end); {
			if p = get[api.Partitions](t, srv.URL+"/v1/partitions"); p.Settled && len(p.Partitions) == len(pkeys) {
				break
			}
		}
		var got []string
		for i := range p.Partitions {
			got = append(got, p.Partitions[i].PKey)
		}
		if s := get[api.Status](t, srv.URL+"/v1/status").Partitions; !p.Settled || p.Pending != 0 || !slices.Equal(got, pkeys) || !s.Settled || s.Count != len(pkeys) {
			t.Fatalf("%v, pending %d, want %v; status %+v", got, p.Pending, pkeys, s)
		}
	}
	settled("0x7fff")
	guid := snap.Ports[snap.EndPortPort[0]].GUID.String()
	if code, body := put(t, srv.URL, `{"name":"my.conf","config":"Default=0x7fff: ALL=full;\na=0x99999: ALL;"}`); code != http.StatusUnprocessableEntity || !strings.Contains(body, "nothing was changed: my.conf:2:3: ") {
		t.Errorf("a bad file: %d %s", code, body)
	}
	if code, body := put(t, srv.URL, `{"config":"Default=0x7fff: ALL=full;\na=5: `+guid+`=full;"}`); code != http.StatusAccepted {
		t.Errorf("a good file: %d %s", code, body)
	}
	settled("0x0005", "0x7fff")
	if p := get[api.Partitions](t, srv.URL+"/v1/partitions").Partitions[0]; p.Full != 1 || p.Limited != 0 {
		t.Errorf("%+v", p)
	}
	close(full)
	if code, body := put(t, srv.URL, `{"config":"Default=0x7fff: ALL=full;"}`); code != http.StatusUnprocessableEntity || !strings.Contains(body, "no space left") {
		t.Errorf("a full disk: %d %s", code, body)
	}
	settled("0x0005", "0x7fff")
	if s := get[api.Status](t, srv.URL+"/v1/status").SA; s.Groups != 0 && s.Groups != 1 || s.Members != 0 {
		t.Errorf("SA %+v", s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.d.ApplyPartitions(ctx, r.d.Snapshot().Partitions); err == nil {
		t.Error("no error, though nobody waits")
	}
	if _, k := snap, ib.PKey(5); r.d.Snapshot().Partitions.Find(k) == nil {
		t.Error("the partition is gone")
	}
}

// fullStore fails every write once full is closed.
type fullStore struct {
	store.Store
	full chan struct{}
}

func (s *fullStore) Apply(ops []store.Op) error {
	select {
	case <-s.full:
		return errors.New("no space left on device")
	default:
		return s.Store.Apply(ops)
	}
}
