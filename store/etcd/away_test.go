package etcd_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"heddle/internal/etcdmodel"
	"heddle/store"
	"heddle/store/etcd"
)

// TestLogOfOutage: the log says when etcd is away, why, and when it is back.
func TestLogOfOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		client := etcdmodel.New(1).Client()
		s, err := etcd.Over(t.Context(), client, etcd.Options{Wait: time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		win(t, s, 5)
		client.Cut(true)
		if err := s.Apply(put(1)); !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("etcd is away: %v", err)
		}
		client.Cut(false)
		for s.Away() != nil {
			<-time.After(time.Second) // virtual time
		}
		synctest.Wait()
		var said []string
		for l := range strings.Lines(log.String()) {
			_, text, _ := strings.Cut(l, " ") // without the time
			said = append(said, text)
		}
		want := []string{
			`level=ERROR msg="etcd is away: changes are refused until it answers" err="store: unavailable: etcd does not answer, or has no majority"` + "\n",
			`level=INFO msg="etcd is back"` + "\n",
		}
		if strings.Join(said, "") != strings.Join(want, "") {
			t.Errorf("the log says\n%s", log.String())
		}
	})
}
