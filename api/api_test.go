package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"heddle/partition"
	"heddle/subnet/atlas"
)

// fake is a manager that does nothing.
type fake struct {
	backupErr error
	unread    error  // why there are no counters
	mode      string // of congestion control
	fakeMachines
	mu       sync.Mutex
	events   []Event
	more     chan struct{}
	reroutes []bool
	sweeps   int
	err      error
	notUp    string
	config   string
	change   PartitionsChange // the last one
	groups   []Group
}

func newFake(events int) *fake {
	f := &fake{more: make(chan struct{})}
	for range events {
		f.add()
	}
	return f
}

func (f *fake) add() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, Event{Seq: uint64(len(f.events) + 1), Level: "info", Kind: "test", Message: "line\nbreak"})
	close(f.more)
	f.more = make(chan struct{})
}

func (f *fake) Status() Status            { return Status{State: "MASTER"} }
func (f *fake) Nodes() []Node             { return nil }
func (f *fake) Links() []Link             { return nil }
func (f *fake) Repairs() []Repair         { return nil }
func (f *fake) Sweeps() []Sweep           { return nil }
func (f *fake) Drawing() Drawing          { return Drawing{} }
func (f *fake) Use() Use                  { return Use{} }
func (f *fake) Rails() Rails              { return Rails{} }
func (f *fake) PortActions() []PortAction { return nil }
func (f *fake) ActOnPort(ctx context.Context, q PortRequest) (PortPlan, error) {
	return PortPlan{}, nil
}

func (f *fake) CheckCabling(name, plan string, partial bool) (Cabling, error) {
	return Cabling{Findings: []CablingFault{}}, nil
}

func (f *fake) Cabling() CablingState {
	return CablingState{Open: []CablingEntry{}, Closed: []CablingEntry{}}
}

func (f *fake) NodeTable(TableQuery) (Table[Node], error)    { return Table[Node]{}, nil }
func (f *fake) PortTable(TableQuery) (Table[PortRow], error) { return Table[PortRow]{}, nil }
func (f *fake) CableTable(TableQuery) (Table[Link], error)   { return Table[Link]{}, nil }
func (f *fake) Node(string) (NodeDetail, bool)               { return NodeDetail{}, true }
func (f *fake) Port(string, int) (PortDetail, bool)          { return PortDetail{}, true }
func (f *fake) Search(string, int) ([]Hit, bool)             { return nil, false }
func (f *fake) Ready() (bool, string) {
	return f.notUp == "", "ready" + f.notUp
}

func (f *fake) Sweep(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sweeps++
	return f.err
}

func (f *fake) Reroute(_ context.Context, rebalance bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reroutes = append(f.reroutes, rebalance)
	return f.err
}

func (f *fake) PlanReroute(_ context.Context, rebalance bool) (RoutePlan, error) {
	return RoutePlan{Engine: "ftree", LoadAfter: 7}, f.err
}

func (f *fake) Events(after uint64) ([]Event, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Event(nil), f.events[min(after, uint64(len(f.events))):]...), f.more
}

func (f *fake) FindEvents(q EventsQuery) (list []Event, err error) {
	all, _ := f.Events(0)
	for i := range all {
		if q.Match(&all[i]) {
			list = append(list, all[i])
		}
	}
	switch {
	case q.Limit == 0 || len(list) <= q.Limit:
		return list, nil
	case q.Oldest():
		return list[:q.Limit], nil
	}
	return list[len(list)-q.Limit:], nil
}

func (f *fake) Partitions() Partitions {
	return Partitions{Config: f.config, Revision: Revision(f.config), Settled: true}
}
func (f *fake) Groups() []Group { return f.groups }
func (f *fake) Backup(w io.Writer) error {
	if f.backupErr != nil {
		return f.backupErr
	}
	_, err := io.WriteString(w, "the backup\n")
	return err
}
func (f *fake) SAKey() SAKey                  { return SAKey{Key: "0x1122334455667788"} }
func (f *fake) Services() []Service           { return nil }
func (f *fake) Subscriptions() []Subscription { return nil }

func (f *fake) Signals() (Signals, bool) {
	return Signals{Mode: "targeted", Hosts: []SignalHost{}}, true
}

func (f *fake) PartitionMembers(partition string, _ TableQuery) (Table[PartitionMember], error) {
	return Table[PartitionMember]{Generation: 1, Total: 1, Matched: 1, Rows: []PartitionMember{{Member: "0x1", Membership: partition}}}, nil
}

// ChangePartitions refuses what has the name of an error in its P_Key.
func (f *fake) ChangePartitions(_ context.Context, c *PartitionsChange) (Partitions, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.change = *c
	errs := map[string]error{
		"stored": ErrNotStored, "outdated": ErrOutdated, "found": partition.ErrNotFound, "exists": partition.ErrExists, "forbidden": ErrForbidden, "used": ErrInUse, "other": errors.New("other"),
	}
	switch err := errs[c.Partition]; {
	case strings.Contains(c.Config, "bad"):
		return Partitions{}, errors.New("line 1: bad")
	case err != nil:
		return Partitions{}, fmt.Errorf("because: %w", err)
	}
	plan := &PartitionPlan{Applied: !c.DryRun}
	if c.Op == ReplacePartitions {
		for l := range strings.Lines(c.Config) {
			plan.Change = append(plan.Change, "+ "+strings.TrimSpace(l))
		}
		if !c.DryRun {
			f.config = c.Config
		}
	} else {
		plan.Change, plan.MoreChange = []string{"+ a=0x0005: 0x1=full"}, 3
	}
	p := f.Partitions()
	p.Plan = plan
	return p, nil
}

func (f *fake) Map(q MapQuery) (Map, error) {
	if q.At == 99 {
		return Map{}, errors.New("no state 99")
	}
	return Map{Generation: 5, At: q.At, Since: q.Since, Map: atlas.Map{Level: q.Level, Unit: q.Unit, Groups: []atlas.MapGroup{{Name: "pod 1"}}}}, nil
}

func (f *fake) Places(_ uint64, nodes []string) (list []Place, err error) {
	for _, n := range nodes {
		list = append(list, Place{GUID: n})
	}
	return list, nil
}

func (f *fake) History(before uint64, limit int) History {
	return History{Moments: []Moment{{Number: before, Gone: limit}}}
}

func (f *fake) Trace(from, to string) (Path, error) {
	return Path{Hops: []PathHop{}, Broken: from + " to " + to}, nil
}

func (f *fake) Path(from, to string) (Path, error) {
	if to == "nowhere" {
		return Path{}, errors.New("nowhere: no such port")
	}
	return Path{SL: 3}, nil
}

// TestPartitions: a valid configuration is accepted, an invalid one refused with its
// reason and without effect, and only clients with write permission may change
// anything.
func TestPartitions(t *testing.T) {
	f := newFake(0)
	h := New(f, Options{Token: "secret"})
	put := func(config string, head ...string) *httptest.ResponseRecorder {
		b, _ := json.Marshal(map[string]string{"config": config})
		return ask(h, "PUT", "/v1/partitions", strings.NewReader(string(b)), append(head, "Content-Type: application/json")...)
	}
	if w := put("Default=0x7fff:ALL=full;"); w.Code != 401 {
		t.Errorf("without the token: status %d", w.Code)
	}
	if w := put("Default=0x7fff:ALL=full;", "Authorization: Bearer secret"); w.Code != 202 || f.config == "" {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
	was := f.config
	if w := put("bad", "Authorization: Bearer secret"); w.Code != 422 || !strings.Contains(w.Body.String(), "line 1: bad") || f.config != was {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
	// A dry run changes nothing. A parameter that it does not have is not passed over.
	w := ask(h, "PUT", "/v1/partitions?dry_run=true", strings.NewReader(`{"config":"x=0x5:ALL;"}`), "Authorization: Bearer secret", "Content-Type: application/json")
	if w.Code != 200 || !strings.Contains(w.Body.String(), `"applied":false`) || !f.change.DryRun || f.config != was {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
	w = ask(h, "PUT", "/v1/partitions?dryrun=true", strings.NewReader(`{"config":"x=0x5:ALL;"}`), "Authorization: Bearer secret", "Content-Type: application/json")
	if w.Code != 422 || !strings.Contains(w.Body.String(), "dryrun") || f.config != was {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
	// Larger than other bodies may be.
	if w := put(strings.Repeat("# comment\n", 100_000), "Authorization: Bearer secret"); w.Code != 202 {
		t.Errorf("a megabyte: status %d, %s", w.Code, w.Body)
	}
	if w := ask(h, "GET", "/v1/path?from=1&to=nowhere", nil); w.Code != 404 || !strings.Contains(w.Body.String(), "no such port") {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
	if w := ask(h, "GET", "/v1/path?from=1", nil); w.Code != 422 {
		t.Errorf("without an end: status %d, %s", w.Code, w.Body)
	}
	for _, list := range []string{"groups", "services", "subscriptions", "repairs", "sweeps"} {
		if w := ask(h, "GET", "/v1/"+list, nil); w.Code != 200 || strings.TrimSpace(w.Body.String()) != "[]" {
			t.Errorf("%s: status %d, %s", list, w.Code, w.Body)
		}
	}
}

// ask makes one request of a handler; head holds further header lines.
func ask(h http.Handler, method, target string, body io.Reader, head ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, body)
	r.Host = "127.0.0.1:7480"
	for _, line := range head {
		k, v, _ := strings.Cut(line, ": ")
		if k == "Host" {
			r.Host = v
		} else {
			r.Header.Set(k, v)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestHostHeader(t *testing.T) {
	h := New(newFake(0), Options{Hosts: []string{"sm.example.org"}})
	for host, want := range map[string]int{
		"127.0.0.1:7480":          200,
		"127.0.0.1":               200,
		"127.8.9.1:80":            200,
		"localhost:7480":          200,
		"[::1]:7480":              200,
		"[::1]":                   200,
		"sm.example.org:7480":     200,
		"sm.example.org":          200,
		"example.org":             403,
		"evil.example.org:7480":   403,
		"localhost.example.org":   403,
		"192.0.2.1:7480":          403,
		"0.0.0.0:7480":            403,
		"127.0.0.1.example.org":   403,
		"[2001:db8::1]:7480":      403,
		"":                        403,
		"127.0.0.1:7480:7480":     403,
		"[::ffff:192.0.2.1]:7480": 403,
	} {
		for _, path := range []string{"/v1/status", "/", "/healthz"} {
			w := ask(h, "GET", path, nil, "Host: "+host)
			if refused := w.Code == 403; refused != (want == 403) {
				t.Errorf("Host %q, GET %s: status %d", host, path, w.Code)
			}
		}
	}
	// Whoever can open the owner's socket may call the server what they like.
	if w := ask(New(newFake(0), Options{AllowWrite: true}), "GET", "/v1/status", nil, "Host: anything"); w.Code != 200 {
		t.Errorf("on the owner's socket: status %d", w.Code)
	}
}

func TestWriteToken(t *testing.T) {
	const token = "0123456789abcdef"
	for _, c := range []struct {
		name   string
		o      Options
		head   []string
		want   int
		sweeps int
	}{
		{"no token", Options{Token: token}, nil, 401, 0},
		{"another", Options{Token: token}, []string{"Authorization: Bearer " + token + "0"}, 401, 0},
		{"its beginning", Options{Token: token}, []string{"Authorization: Bearer 0123"}, 401, 0},
		{"empty", Options{Token: token}, []string{"Authorization: Bearer "}, 401, 0},
		{"another scheme", Options{Token: token}, []string{"Authorization: Basic " + token}, 401, 0},
		{"right", Options{Token: token}, []string{"Authorization: Bearer " + token}, 202, 1},
		{"there is none", Options{}, []string{"Authorization: Bearer "}, 401, 0},
		{"there is none, nothing sent", Options{}, nil, 401, 0},
		{"the owner's socket", Options{AllowWrite: true}, nil, 202, 1},
		{"the reader's token", Options{Token: token, ReadToken: "reader reader reader"}, []string{"Authorization: Bearer reader reader reader"}, 403, 0},
		{"from a stranger's page", Options{Token: token}, []string{"Authorization: Bearer " + token, "Origin: http://example.org"}, 403, 0},
		{"from a stranger's page, by the browser's word", Options{Token: token}, []string{"Authorization: Bearer " + token, "Sec-Fetch-Site: cross-site"}, 403, 0},
		{"from a stranger's page to the owner's socket", Options{AllowWrite: true}, []string{"Origin: http://example.org"}, 403, 0},
		{"from our page", Options{Token: token}, []string{"Authorization: Bearer " + token, "Origin: http://127.0.0.1:7480"}, 202, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(0)
			w := ask(New(f, c.o), "POST", "/v1/sweep", nil, c.head...)
			if w.Code != c.want || f.sweeps != c.sweeps {
				t.Errorf("status %d, %d sweeps; want %d, %d", w.Code, f.sweeps, c.want, c.sweeps)
			}
			if w.Code == 401 && w.Header().Get("WWW-Authenticate") == "" {
				t.Error("401 without WWW-Authenticate")
			}
			if strings.Contains(w.Body.String(), token) {
				t.Error("the token is in the answer")
			}
		})
	}
	// Other methods are no way around.
	f := newFake(0)
	for _, m := range []string{"GET", "HEAD", "OPTIONS"} {
		ask(New(f, Options{Token: token}), m, "/v1/sweep", nil)
	}
	if f.sweeps != 0 {
		t.Errorf("%d sweeps by reading", f.sweeps)
	}
}

func TestReadToken(t *testing.T) {
	o := Options{Token: "writer writer writer", ReadToken: "reader reader reader"}
	h := New(newFake(0), o)
	for _, path := range []string{"/v1/status", "/v1/whoami", "/v2", "/views/", "/healthz", "/readyz", "/openapi.json", "/v1/events/stream"} {
		if w := ask(h, "GET", path, nil); w.Code != 401 {
			t.Errorf("GET %s without a token: status %d", path, w.Code)
		}
	}
	// The page's own files hold no data, and a browser has to have them to ask for a token.
	for _, path := range []string{"/", "/shell.js", "/views/map.js", "/uplot/uPlot.min.css"} {
		for _, wrong := range []string{"", "Bearer wrong"} {
			if w := ask(h, "GET", path, nil, "Authorization: "+wrong); w.Code != 200 || w.Header().Get("Content-Security-Policy") == "" {
				t.Errorf("GET %s with %q: status %d", path, wrong, w.Code)
			}
		}
		if w := ask(h, "POST", path, nil); w.Code != 401 {
			t.Errorf("POST %s without a token: status %d", path, w.Code)
		}
	}
	for _, token := range []string{o.Token, o.ReadToken} {
		if w := ask(h, "GET", "/v1/status", nil, "Authorization: Bearer "+token); w.Code != 200 {
			t.Errorf("with %q: status %d", token, w.Code)
		}
	}
}

func TestBodiesAreBounded(t *testing.T) {
	var read int
	var err error
	h := newGuard(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var b []byte
		b, err = io.ReadAll(r.Body)
		read = len(b)
	}), Options{AllowWrite: true})
	ask(h, "POST", "/v1/vms", strings.NewReader(strings.Repeat("x", maxBody)))
	if read != maxBody || err != nil {
		t.Errorf("%d bytes read, %v", read, err)
	}
	ask(h, "POST", "/v1/vms", strings.NewReader(strings.Repeat("x", maxBody+1)))
	var large *http.MaxBytesError
	if read != maxBody || !errors.As(err, &large) {
		t.Errorf("%d bytes read, %v", read, err)
	}
}

func TestAnswers(t *testing.T) {
	f := newFake(2)
	h := New(f, Options{AllowWrite: true})
	for _, path := range []string{"/v1/nodes", "/v1/links"} {
		if w := ask(h, "GET", path, nil); strings.TrimSpace(w.Body.String()) != "[]" {
			t.Errorf("GET %s of nothing: %s, want []", path, w.Body)
		}
	}
	var events []Event
	if err := json.Unmarshal(ask(h, "GET", "/v1/events?after=1", nil).Body.Bytes(), &events); err != nil || len(events) != 1 || events[0].Seq != 2 {
		t.Errorf("events after 1: %v, %v", events, err)
	}
	if w := ask(h, "GET", "/v1/events?after=x", nil); w.Code != 422 && w.Code != 400 {
		t.Errorf("events after x: status %d", w.Code)
	}
	if w := ask(h, "GET", "/v1/events/stream?after=x", nil); w.Code != 400 {
		t.Errorf("stream after x: status %d", w.Code)
	}
	w := ask(h, "GET", "/", nil)
	for _, k := range []string{"Content-Security-Policy", "X-Content-Type-Options", "Referrer-Policy"} {
		if w.Header().Get(k) == "" {
			t.Errorf("the page has no %s", k)
		}
	}
	for path, code := range map[string]int{"/v1/reroute?dry_run=true": 200, "/v1/reroute": 202, "/v1/reroute?rebalance=true": 202, "/v1/reroute?rebalance=often": 422} {
		if w := ask(h, "POST", path, nil); w.Code != code {
			t.Errorf("POST %s: status %d, want %d: %s", path, w.Code, code, w.Body)
		}
	}
	if n := len(f.reroutes); n != 2 || f.reroutes[0] == f.reroutes[1] {
		t.Errorf("rerouted %v, want once plainly and once rebalanced", f.reroutes)
	}
	f.err = errors.New("stopping")
	if w := ask(h, "POST", "/v1/sweep", nil); w.Code != 503 || !strings.Contains(w.Body.String(), "stopping") {
		t.Errorf("a sweep that is refused: status %d %s", w.Code, w.Body)
	}
	if w := ask(h, "GET", "/readyz", nil); w.Code != 200 {
		t.Errorf("readyz: status %d", w.Code)
	}
	f.notUp = " no: discovering"
	if w := ask(h, "GET", "/readyz", nil); w.Code != 503 || !strings.Contains(w.Body.String(), "discovering") {
		t.Errorf("readyz: status %d %s", w.Code, w.Body)
	}
	if w := ask(h, "GET", "/healthz", nil); w.Code != 200 {
		t.Errorf("healthz: status %d", w.Code)
	}
	if w := ask(h, "GET", "/no/such/thing", nil); w.Code != 404 {
		t.Errorf("unknown path: status %d", w.Code)
	}
}

// TestStreamResumes reads a stream, returns with Last-Event-ID, and receives the missed
// events, then new ones.
func TestStreamResumes(t *testing.T) {
	f := newFake(2)
	srv := httptest.NewServer(New(f, Options{}))
	defer srv.Close()
	open := func(last string) (*bufio.Scanner, func()) {
		r, err := http.NewRequest("GET", srv.URL+"/v1/events/stream", nil)
		if err != nil {
			t.Fatal(err)
		}
		if last != "" {
			r.Header.Set("Last-Event-ID", last)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if ct := resp.Header.Get("Content-Type"); ct != "text/event-stream" {
			t.Fatalf("content type %q", ct)
		}
		return bufio.NewScanner(resp.Body), func() { resp.Body.Close() }
	}
	next := func(s *bufio.Scanner) string {
		id := ""
		for s.Scan() {
			switch line := s.Text(); {
			case strings.HasPrefix(line, "id: "):
				id = line[4:]
			case strings.HasPrefix(line, "data: "):
				var e Event
				if err := json.Unmarshal([]byte(line[6:]), &e); err != nil || e.Message != "line\nbreak" {
					t.Fatalf("event %q: %v", line, err)
				}
			case line == "":
				return id
			}
		}
		t.Fatalf("the stream ended: %v", s.Err())
		return ""
	}
	s, done := open("")
	for _, want := range []string{"1", "2"} {
		if got := next(s); got != want {
			t.Errorf("event %s, want %s", got, want)
		}
	}
	f.add()
	if got := next(s); got != "3" {
		t.Errorf("event %s, want 3", got)
	}
	done()
	f.add()
	s, done = open("2")
	defer done()
	for _, want := range []string{"3", "4"} {
		if got := next(s); got != want {
			t.Errorf("after coming back: event %s, want %s", got, want)
		}
	}
	f.add()
	if got := next(s); got != "5" {
		t.Errorf("event %s, want 5", got)
	}
}

func TestStreamKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*keepAlive+time.Second)
		defer cancel()
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/v1/events/stream", nil).WithContext(ctx)
		f := newFake(0)
		f.more = make(chan struct{})
		stream(f, w, r)
		if got := strings.Count(w.Body.String(), ": alive\n\n"); got != 2 {
			t.Errorf("%d signs of life in %v, want 2", got, 2*keepAlive)
		}
	})
}

func (f *fake) Counters(q CountersQuery) (Counters, error) {
	if q.By == "use" && q.Limit == 3 {
		return Counters{Round: 7, Ports: []PortUse{{GUID: "0x1", Port: 2, Xmit: 0.5}}}, nil
	}
	return Counters{}, errors.New("by is unknown")
}

func (f *fake) PortCounters(guid string, num int) (PortCounters, error) {
	if guid != "0x1" || num != 2 {
		return PortCounters{}, errors.New("there is no such port")
	}
	return PortCounters{Round: 7, Counters: map[string]Counter{"PortXmitData": {Total: 1 << 60}}}, nil
}

func (f *fake) FabricMetrics(w io.Writer, q FabricMetrics) error {
	_, err := fmt.Fprintf(w, "%+v", q)
	return err
}

func (f *fake) Congestion(q CongestionQuery) (Congestion, error) {
	if q.Node == "0x7" {
		return Congestion{}, errors.New("no switch has it")
	}
	return Congestion{Mode: f.mode, Nodes: []CongestionNode{}, Flows: []CongestionFlow{}}, nil
}

func (f *fake) SetCongestionMode(mode string) error {
	f.mode = mode
	return nil
}

func (f *fake) Worst(limit int) Worst { return Worst{Round: 7, Polled: limit} }

func (f *fake) Findings(q FindingsQuery) Findings {
	return Findings{Round: 3, Missed: q.Limit, Counts: FindingCounts{Info: len(fmt.Sprint(q.Worst))}, Open: []Finding{{ID: 7, Rule: "bad_cable"}}, Closed: []Finding{}}
}

func (f *fake) HotSpots(limit int) HotSpots {
	return HotSpots{Round: 3, Missed: limit, Open: []HotSpot{{ID: 7, Sign: "full"}}, Closed: []HotSpot{}}
}

func (f *fake) CountersDump(mach bool) (string, error) {
	return fmt.Sprint("dump ", mach), f.unread
}

// TestCongestion: a client with the token changes the mode, and an unknown mode is refused.
func TestCongestion(t *testing.T) {
	f := &fake{}
	h := New(f, Options{Token: "secret"})
	for _, c := range []struct {
		method, path, body string
		code               int
		want               string
	}{
		{"POST", "/v1/congestion/mode", `{"mode":"act"}`, 202, ""},
		{"GET", "/v1/congestion?all=true", "", 200, `"mode":"act"`},
		{"POST", "/v1/congestion/mode", `{"mode":"on"}`, 422, "one of"},
		{"POST", "/v1/congestion/mode", `{}`, 422, "required"},
		{"GET", "/v1/congestion?node=0x7", "", 404, "no switch has it"},
	} {
		r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
		r.Host = "127.0.0.1"
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer secret")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, w.Code, w.Body)
		}
	}
	if f.mode != "act" {
		t.Errorf("the mode is %q", f.mode)
	}
}

// TestCounters: queries reach the manager, and what it refuses is the client's error.
func TestCounters(t *testing.T) {
	f := &fake{}
	h := New(f, Options{})
	for _, c := range []struct {
		path string
		code int
		want string
	}{
		{"/v1/counters?by=use&limit=3", 200, `"xmit":0.5`},
		{"/v1/worst", 200, `"ports_polled":10`},
		{"/v1/worst?limit=100", 200, `"ports_polled":100`},
		{"/v1/worst?limit=101", 422, "limit"},
		{"/v1/worst?limit=0", 422, "limit"},
		{"/v1/findings", 200, `"info":5},`},
		{"/v1/findings?by=severity&limit=4", 200, `"info":4},`},
		{"/v1/findings?by=severity&limit=4", 200, `"missed":4`},
		{"/v1/findings?by=age", 422, "by"},
		{"/v1/findings?limit=-1", 422, "limit"},
		{"/v1/counters?by=wait", 422, "by is unknown"},
		{"/v1/counters?by=nonsense", 422, "one of"},
		{"/v1/counters?limit=-1", 422, ">= 0"},
		{"/v1/counters?all=true&limit=4611686018427387904", 422, "<= 1e+06"},
		{"/v1/findings?limit=1000001", 422, "<= 1e+06"},
		{"/v1/hotspots?limit=1000001", 422, "<= 1e+06"},
		{"/v1/findings?limit=1000000", 200, `"missed":1000000`},
		{"/v1/ports/0x1/2/counters", 200, `"total":1152921504606846976`},
		{"/v1/ports/0x1/3/counters", 404, "no such port"},
		{"/v1/ports/0x1/255/counters", 422, "<= 254"},
		{"/metrics/fabric", 200, "{Guilbaults:false Shard:0 Of:0 Sparse:false}"},
		{"/metrics/fabric?shard=3&of=16&errors=seen", 200, "{Guilbaults:false Shard:3 Of:16 Sparse:true}"},
		{"/metrics/fabric?shard=3/16&names=guilbaults", 200, "{Guilbaults:true Shard:3 Of:16 Sparse:false}"},
		{"/metrics/fabric?shard=16&of=16", 400, "0 <= I < N"},
		{"/metrics/fabric?shard=1", 400, "0 <= I < N"},
		{"/metrics/fabric?names=x", 400, "treydock or guilbaults"},
		{"/metrics/fabric?errors=x", 400, "all or seen"},
		{"/v1/hotspots", 200, `"sign":"full"`},
		{"/v1/hotspots?limit=4", 200, `"missed":4`},
		{"/v1/findings", 200, `"rule":"bad_cable"`},
		{"/v1/counters/opensm", 200, "dump false"},
		{"/v1/counters/opensm?form=mach", 200, "dump true"},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", c.path, nil)
		r.Host = "127.0.0.1"
		h.ServeHTTP(w, r)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %s; want %d with %s", c.path, w.Code, w.Body, c.code, c.want)
		}
	}
	f.unread = errors.New("the first round ends in 3 s")
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/v1/counters/opensm", nil)
	r.Host = "127.0.0.1"
	h.ServeHTTP(w, r)
	if w.Code != 503 || w.Body.String() != "the first round ends in 3 s\n" {
		t.Errorf("without counters: %d %q", w.Code, w.Body)
	}
}
