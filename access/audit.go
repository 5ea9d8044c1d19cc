package access

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Entry is one entry of the audit log: a request that was to change something, or that read keys.
type Entry struct {
	Seq    uint64    `json:"seq" doc:"of this manager's log; numbers ascend and never start anew"`
	Time   time.Time `json:"time" doc:"when the request was answered"`
	Who    string    `json:"who" doc:"token:NAME, cert:SUBJECT, socket:uid=N, write-token, read-token, ufm:USER or anonymous"`
	Role   string    `json:"role"`
	From   string    `json:"from" doc:"address of the client, or the process ID at the other end of the Unix socket"`
	Method string    `json:"method"`
	Path   string    `json:"path" doc:"with the query"`
	Status int       `json:"status" doc:"HTTP status of the answer: the result"`
	Error  string    `json:"error,omitempty" doc:"why it was refused"`
	// Change has a line for each difference, and Request the body where no difference is known.
	Change  []string `json:"change,omitempty" doc:"what is different, without keys"`
	Request string   `json:"request,omitempty" doc:"the body, if the change is not listed; without keys"`
}

// Limits of an Entry.
const (
	maxChange  = 100
	maxLine    = 512
	maxRequest = 2048
)

// Bounded returns lines of bounded number and length, with a note of omitted ones.
func Bounded(lines []string) []string {
	if len(lines) > maxChange {
		lines = append(slices.Clone(lines[:maxChange]), fmt.Sprintf("and %d more lines", len(lines)-maxChange))
	}
	for i, l := range lines {
		if len(l) > maxLine {
			lines[i] = strings.ToValidUTF8(l[:maxLine], "") + "..."
		}
	}
	return lines
}

// hidden are names of fields that the audit log leaves out. P_Keys are no secret.
var hidden = regexp.MustCompile(`(?i)^(.*(secret|password|token|m_?key|sm_?key|sa_?key|q_?key|cc_?key)|key|config)$`)

// inText finds keys in a text such as a partition configuration, and asToken named tokens.
var (
	inText  = regexp.MustCompile(`(?i)\b((?:q|m|sm|sa|cc)_?key|secret|password)(\s*[=:]\s*)[^\s,;:]+`)
	asToken = regexp.MustCompile(`heddle\.[-\w]+\.[-\w]{43}`)
)

// Diff compares two values by their JSON and returns a line "field: before -> after" for each
// difference, without keys. A nil value has no fields.
func Diff(before, after any) []string {
	a, b := map[string]string{}, map[string]string{}
	flatten(a, "", before)
	flatten(b, "", after)
	names := map[string]bool{}
	for _, m := range []map[string]string{a, b} {
		for k := range m {
			names[k] = true
		}
	}
	var list []string
	for _, k := range slices.Sorted(maps.Keys(names)) {
		switch x, y := a[k], b[k]; {
		case x == y:
		case x == "":
			list = append(list, fmt.Sprintf("%s: %s", k, y))
		case y == "":
			list = append(list, fmt.Sprintf("%s: %s -> none", k, x))
		default:
			list = append(list, fmt.Sprintf("%s: %s -> %s", k, x, y))
		}
	}
	return list
}

// flatten puts the leaves of a value's JSON into m.
func flatten(m map[string]string, at string, v any) {
	if v == nil {
		return
	}
	b, err := json.Marshal(v)
	if err != nil {
		return
	}
	var x any
	if json.Unmarshal(b, &x) == nil {
		leaves(m, at, x)
	}
}

func leaves(m map[string]string, at string, x any) {
	switch x := x.(type) {
	case map[string]any:
		for k, v := range x {
			if hidden.MatchString(k) {
				continue
			}
			if at != "" {
				k = at + "." + k
			}
			leaves(m, k, v)
		}
	case []any:
		for i, v := range x {
			leaves(m, fmt.Sprintf("%s[%d]", at, i), v)
		}
	case nil:
	default:
		m[at] = fmt.Sprint(x)
	}
}

// RedactLines returns lines without what they say of keys.
func RedactLines(lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = RedactText(l)
	}
	return out
}

// RedactText replaces the keys in a text.
func RedactText(s string) string {
	return asToken.ReplaceAllString(inText.ReplaceAllString(s, "$1$2..."), "heddle...")
}

// RedactBody is a JSON body without keys, for Entry.Request; empty if it is no JSON object.
func RedactBody(b []byte) string {
	var x map[string]any
	if json.Unmarshal(b, &x) != nil {
		return ""
	}
	drop(x)
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if e.Encode(x) != nil {
		return ""
	}
	s := strings.TrimSpace(out.String())
	if len(s) > maxRequest {
		s = strings.ToValidUTF8(s[:maxRequest], "") + "..."
	}
	return s
}

func drop(x any) {
	switch x := x.(type) {
	case map[string]any:
		for k, v := range x {
			if hidden.MatchString(k) {
				delete(x, k)
				continue
			}
			if s, ok := v.(string); ok {
				x[k] = RedactText(s)
			}
			drop(v)
		}
	case []any:
		for _, v := range x {
			drop(v)
		}
	}
}
