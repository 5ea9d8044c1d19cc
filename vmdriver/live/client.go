package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"heddle/api"
	"heddle/ib"
	"heddle/vmdriver"
)

// Manager is where the API of a manager is.
type Manager struct {
	URL    string // http://127.0.0.1:7480
	Token  string // that permits changes
	Client *http.Client
}

// Limits of a request: how long the manager may wait for an operation and for changes, how
// much longer it may be silent, and how much it may say, in bytes.
const (
	waitOperation = 5
	waitChanges   = 20
	silence       = 10 * time.Second
	maxReply      = 256 << 20
	pageLen       = 1000
)

// client makes requests of the manager. It is safe for concurrent use.
type client struct {
	find func() (Manager, error)
	name string

	mu sync.Mutex
	at *Manager // nil: not known; guarded by mu
}

// manager finds the manager.
func (c *client) manager() (Manager, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == nil {
		m, err := c.find()
		if err != nil {
			return m, err
		}
		c.at = &m
	}
	return *c.at, nil
}

// forget has the manager be found again.
func (c *client) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = nil
}

// refusal is an answer that is no success.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

// do makes a request that the manager answers within so many seconds, and decodes the
// answer into out unless that is nil.
func (c *client) do(ctx context.Context, seconds int, method, path string, body, out any) error {
	m, err := c.manager()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+silence)
	defer cancel()
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, m.URL+path, content)
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if m.Token != "" {
		req.Header.Set("Authorization", "Bearer "+m.Token)
	}
	resp, err := m.Client.Do(req)
	if err != nil {
		c.forget()
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		c.forget()
		return err
	}
	if resp.StatusCode >= 300 {
		if resp.StatusCode < 400 || resp.StatusCode == http.StatusUnauthorized || resp.StatusCode >= 500 {
			c.forget()
		}
		return &refusal{resp.StatusCode, problem(resp.Status, text)}
	}
	if out == nil || len(text) == 0 {
		return nil
	}
	return json.Unmarshal(text, out)
}

// problem is the readable part of an error.
func problem(status string, body []byte) string {
	var p struct{ Detail string }
	if json.Unmarshal(body, &p) == nil && p.Detail != "" {
		return p.Detail
	}
	return fmt.Sprintf("%s: %.200s", status, strings.TrimSpace(string(body)))
}

// changes waits for changes since a point.
func (c *client) changes(ctx context.Context, since string) (out api.VMChanges, err error) {
	q := url.Values{"since": {since}, "wait": {strconv.Itoa(waitChanges)}}
	err = c.do(ctx, waitChanges, http.MethodGet, "/v1/vms:changes?"+q.Encode(), nil, &out)
	return out, err
}

// perform makes the request of a call.
func (c *client) perform(ctx context.Context, call vmdriver.Call) vmdriver.Answer {
	a := vmdriver.Answer{Call: call}
	var v api.VM
	var err error
	path := "/v1/vms/" + url.PathEscape(call.Name)
	wait := "?wait=" + strconv.Itoa(waitOperation)
	switch call.Verb {
	case vmdriver.List:
		a.List, err = c.list(ctx)
	case vmdriver.Get:
		err = c.do(ctx, 0, http.MethodGet, path, nil, &v)
	case vmdriver.Finish, vmdriver.RollBack:
		err = c.do(ctx, waitOperation, http.MethodPost, path+"/"+call.Verb.String()+wait, nil, &v)
	case vmdriver.Move:
		to := api.VMTarget{Hypervisor: call.Place.Port.String(), Function: int(call.Place.Function)}
		err = c.do(ctx, waitOperation, http.MethodPost, path+"/move"+wait, to, &v)
	case vmdriver.Report:
		err = c.do(ctx, 0, http.MethodPut, path+"/migration", progress(&call.Progress, c.name), nil)
	}
	if err == nil && call.Verb != vmdriver.List && call.Verb != vmdriver.Report {
		a.View, err = view(&v)
	}
	var r *refusal
	switch {
	case err == nil:
	case !errors.As(err, &r):
		a.Result, a.Reason = vmdriver.Unknown, err.Error()
	default:
		a.Reason = r.text
		switch r.status {
		case http.StatusNotFound:
			a.Result = vmdriver.Absent
		case http.StatusBadRequest, http.StatusConflict, http.StatusUnprocessableEntity, http.StatusInsufficientStorage, http.StatusRequestEntityTooLarge:
			a.Result = vmdriver.Refused
		default:
			a.Result = vmdriver.Unknown
		}
	}
	return a
}

// list reads all interfaces.
func (c *client) list(ctx context.Context) (all []vmdriver.Interface, err error) {
	q := url.Values{"limit": {strconv.Itoa(pageLen)}}
	for {
		var page api.VMList
		if err := c.do(ctx, 0, http.MethodGet, "/v1/vms?"+q.Encode(), nil, &page); err != nil {
			return nil, err
		}
		for i := range page.VMs {
			v, err := view(&page.VMs[i])
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		if page.Next == "" {
			return all, nil
		}
		q.Set("after", page.Next)
	}
}

// view is an interface as the core knows it.
func view(v *api.VM) (out vmdriver.Interface, err error) {
	out = vmdriver.Interface{Name: v.Name, OwnLID: v.LIDKind == "own", Reason: v.Reason}
	states := map[string]vmdriver.State{
		"created": vmdriver.Created, "attached": vmdriver.Attached, "migrating": vmdriver.Migrating, "detached": vmdriver.Detached,
	}
	doing := map[string]vmdriver.Doing{
		"": vmdriver.Nothing, "attach": vmdriver.Attaching, "finish": vmdriver.Finishing, "roll back": vmdriver.RollingBack, "detach": vmdriver.Detaching,
	}
	var known, what bool
	if out.State, known = states[v.State]; !known {
		return out, fmt.Errorf("live: interface %q has state %q, which this driver does not know", v.Name, v.State)
	}
	if out.Doing, what = doing[v.Doing]; !what {
		return out, fmt.Errorf("live: interface %q: %q is an operation that this driver does not know", v.Name, v.Doing)
	}
	if out.At, err = place(v.Hypervisor); err == nil {
		out.To, err = place(v.Dest)
	}
	if err == nil && v.GUID != "" {
		out.GUID, err = guid(v.GUID)
	}
	return out, err
}

func guid(text string) (ib.GUID, error) {
	n, err := strconv.ParseUint(text, 0, 64)
	return ib.GUID(n), err
}

func place(p *api.VMPlace) (out vmdriver.Place, err error) {
	if p == nil {
		return out, nil
	}
	out.Port, err = guid(p.PortGUID)
	if err == nil && (p.Function < 0 || p.Function > 0xFFFF) {
		err = fmt.Errorf("live: there is no function %d", p.Function)
	}
	out.Function = uint16(p.Function)
	return out, err
}

// maxReason bounds the reason of a report, in bytes, as the API does.
const maxReason = 1000

// progress is what the API is told of a migration.
func progress(p *vmdriver.Progress, name string) api.VMProgress {
	at := func(p vmdriver.Place) *api.VMPlace {
		if p == (vmdriver.Place{}) {
			return nil
		}
		return &api.VMPlace{PortGUID: p.Port.String(), Function: int(p.Function)}
	}
	out := api.VMProgress{
		Stage: string(p.Stage), From: at(p.From), To: at(p.To), Memory: p.Copy.Memory, Driver: name,
		Outage: p.Copy.Outage.Seconds() * 1e3, PeerOutage: p.Copy.Felt.Seconds() * 1e3, Reason: p.Reason,
	}
	if len(out.Reason) > maxReason {
		out.Reason = strings.ToValidUTF8(out.Reason[:maxReason], "")
	}
	for _, r := range p.Copy.Rounds {
		out.Rounds = append(out.Rounds, api.VMRound{Bytes: r.Bytes, Seconds: r.Time.Seconds()})
	}
	return out
}
