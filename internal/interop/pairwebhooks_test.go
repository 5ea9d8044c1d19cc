package interop

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"heddle/api"
)

// hooked is a receiver of webhooks.
type hooked struct {
	mu      sync.Mutex
	away    bool              // it answers 503; guarded by mu
	refused map[string]string // bodies by webhook-id; guarded by mu
	taken   map[string]string // guarded by mu
	order   []string          // of taken; guarded by mu
	wrong   []string          // guarded by mu
}

func (h *hooked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body) // a short body differs from that of the next try
	id := r.Header.Get("webhook-id")
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, before := range []map[string]string{h.refused, h.taken} {
		if was, ok := before[id]; ok && was != string(b) {
			h.wrong = append(h.wrong, fmt.Sprintf("%s: %s, and before: %s", id, b, was))
		}
	}
	if h.away {
		h.refused[id] = string(b)
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if _, again := h.taken[id]; !again {
		h.taken[id] = string(b)
		h.order = append(h.order, id)
	}
	w.WriteHeader(http.StatusNoContent)
}

// logOf is the part of an event's id that names the log of events which it is in.
func logOf(id string) string { return id[:strings.LastIndexByte(id, '_')+1] }

// lacks are events of a manager, recorded while it was active, that were not taken, from number first on.
func (h *hooked) lacks(t *testing.T, addr, log string, first uint64) (list []uint64) {
	t.Helper()
	var events []api.Event
	getJSON(t, "http://"+addr+"/v1/events?limit=10000", &events)
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range events {
		if e := &events[i]; !e.Spare && e.Seq >= first && h.taken[fmt.Sprint(log, e.Seq)] == "" {
			list = append(list, e.Seq)
		}
	}
	return list
}

// TestPairWebhooks: an active manager is killed while its target of webhooks does not answer. The other
// one delivers its own events when it has taken over, and those that it had been told of; the killed one
// delivers the rest of its own when it runs again, on standby. None is missing, each log's come in order,
// and one that is sent again has the same id and the same body.
func TestPairWebhooks(t *testing.T) {
	b := testNet{name: "small", gen: []string{"xgft", "2", "4,4", "1,2"}}.build(t)
	_, env := b.simulate(t)
	h := &hooked{away: true, refused: map[string]string{}, taken: map[string]string{}}
	srv := httptest.NewServer(h)
	defer srv.Close()
	for name, text := range map[string]string{
		"hooks.yaml": "targets: [{name: night shift, url: '" + srv.URL + "', secret-file: secret}]\n",
		"secret":     "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n",
	} {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := newPair(t, &b, strings.TrimPrefix(env[0], "IBSIM_SOCKNAME="), "--webhooks", filepath.Join(b.dir, "hooks.yaml"))
	p.start(0)
	p.start(1)
	active := p.paired()
	old := ""
	await(t, "a try of the active manager", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		for id := range h.refused {
			old = id
		}
		return len(h.refused) > 0
	})
	var waiting []api.Event
	getJSON(t, "http://"+p.addr[active]+"/v1/events?limit=10000", &waiting)
	h.mu.Lock()
	var first struct{ Data api.Event }
	if err := json.Unmarshal([]byte(h.refused[old]), &first); err != nil {
		t.Error(err)
	}
	h.mu.Unlock()
	told := 0.0 // events that the standby has to know
	for i := range waiting {
		if e := &waiting[i]; !e.Spare && e.Seq >= first.Data.Seq {
			told++
		}
	}
	await(t, "the events at the standby", func() bool {
		return metric(t, p.addr[1-active], "heddle_webhook_partner_events") >= told
	})
	p.prog[active].stop(syscall.SIGKILL)
	h.mu.Lock()
	if len(h.taken) != 0 || len(h.refused) != 1 {
		t.Errorf("%d taken, %d refused: want the first event alone, again and again", len(h.taken), len(h.refused))
	}
	h.away = false
	h.mu.Unlock()

	p.serves(1 - active)
	now := ""
	await(t, "an event of the new active manager", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, id := range h.order {
			if logOf(id) != logOf(old) {
				now = logOf(id)
			}
		}
		return now != ""
	})
	await(t, "the events of the killed manager, while it is dead", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		for i := range waiting {
			if e := &waiting[i]; !e.Spare && e.Seq >= first.Data.Seq && h.taken[fmt.Sprint(logOf(old), e.Seq)] == "" {
				return false
			}
		}
		return true
	})
	t.Logf("%d events of the killed manager waited", len(waiting))
	await(t, "all events of the new active manager", func() bool { return len(h.lacks(t, p.addr[1-active], now, 1)) == 0 })
	p.start(active)
	await(t, "all events of the old active manager", func() bool {
		return len(h.lacks(t, p.addr[active], logOf(old), first.Data.Seq)) == 0
	})

	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.wrong) > 0 {
		t.Errorf("sent again with another body: %v", h.wrong)
	}
	if h.taken[old] == "" {
		t.Errorf("%s was refused, and did not come again", old)
	}
	last := map[string]uint64{}
	for _, id := range h.order {
		var m struct{ Data api.Event }
		if err := json.Unmarshal([]byte(h.taken[id]), &m); err != nil || m.Data.Seq <= last[logOf(id)] || m.Data.Spare {
			t.Errorf("%s after %d: %+v %v", id, last[logOf(id)], m.Data, err)
		}
		last[logOf(id)] = m.Data.Seq
	}
}
