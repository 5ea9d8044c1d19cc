package webhook

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"heddle/api"
)

// message is the content of one request: an event, or a batch of them.
type message struct {
	id          string // of its last event: a receiver that has a message with that id has all of its events
	contentType string // by CloudEvents' HTTP binding
	body        []byte
	first       uint64 // number of its first event
	events      int
	batch       bool
}

// add adds an event of the source with the given id. It returns false if the message would become too large.
func (m *message) add(e *api.Event, source string, batch bool) bool {
	id := "evt_" + source + "_" + strconv.FormatUint(e.Seq, 10)
	b, err := Body(e, id)
	if err != nil {
		return true // strings and numbers are always JSON
	}
	if m.events > 0 && len(m.body)+len(b) > mostBody {
		return false
	}
	switch {
	case !batch:
		m.contentType, m.body = "application/cloudevents+json; charset=utf-8", b
	case m.events == 0:
		m.contentType, m.body = "application/cloudevents-batch+json; charset=utf-8", append([]byte{'['}, b...)
	default:
		m.body = append(append(m.body, ','), b...)
	}
	if m.events == 0 {
		m.first = e.Seq
	}
	m.id, m.batch = id, batch
	m.events++
	return true
}

// close completes the body.
func (m *message) close() {
	if m.batch {
		m.body = append(m.body, ']')
	}
}

// Sign is the webhook-signature of a message: one signature for each secret, so that secrets can be
// replaced.
func Sign(secrets [][]byte, id string, at time.Time, body []byte) string {
	list := make([]string, len(secrets))
	for i, s := range secrets {
		m := hmac.New(sha256.New, s)
		fmt.Fprintf(m, "%s.%d.", id, at.Unix())
		m.Write(body)
		list[i] = "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil))
	}
	return strings.Join(list, " ")
}

// Body is the CloudEvents message of an event.
func Body(e *api.Event, id string) ([]byte, error) {
	ring := id[:strings.LastIndexByte(id, '_')+1]
	return json.Marshal(struct {
		SpecVersion string     `json:"specversion"`
		ID          string     `json:"id"`
		Source      string     `json:"source"`
		Type        string     `json:"type"`
		Subject     string     `json:"subject,omitempty"`
		Time        time.Time  `json:"time"`
		ContentType string     `json:"datacontenttype"`
		Level       string     `json:"heddlelevel"`
		Cause       string     `json:"heddlecause"`
		Data        *api.Event `json:"data"`
	}{
		"1.0", id, "/heddle/" + url.PathEscape(cmp.Or(e.Manager, "manager")), "heddle.event." + e.Kind,
		cmp.Or(e.Attrs["node_guid"], e.Attrs["port_guid"]), e.Time.UTC(), "application/json",
		e.Level, ring + strconv.FormatUint(e.Cause, 10), e,
	})
}
