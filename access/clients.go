package access

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Clients has the roles of client certificates, by subject.
type Clients struct{ by map[string]Caller }

// maxClients bounds the file of ParseClients, in bytes.
const maxClients = 1 << 20

// ParseClients reads the roles of client certificates, a line for each:
//
//	ROLE SUBJECT
//	tenant:PREFIX SUBJECT
//
// SUBJECT is the whole subject in the order and form of RFC 4514 (CN=alice,O=Example), as 'openssl x509
// -noout -subject -nameopt RFC2253' prints it. Empty lines and what follows a # at the beginning of a
// line are left out. name is that of the file, for errors.
func ParseClients(in io.Reader, name string) (*Clients, error) {
	c := &Clients{by: map[string]Caller{}}
	b, err := io.ReadAll(io.LimitReader(in, maxClients+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxClients {
		return nil, fmt.Errorf("%s: larger than the limit of %d bytes", name, maxClients)
	}
	s := bufio.NewScanner(strings.NewReader(string(b)))
	s.Buffer(nil, maxClients+1)
	for n := 1; s.Scan(); n++ {
		line := strings.TrimSpace(s.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		word, subject, _ := strings.Cut(line, " ")
		subject = strings.TrimSpace(subject)
		role, prefix, _ := strings.Cut(word, ":")
		x := Caller{Name: "cert:" + subject, Scope: Scope{Prefix: prefix}, Known: true}
		if x.Role, err = ParseRole(role); err == nil {
			err = x.Scope.check(x.Role)
		}
		switch _, twice := c.by[subject]; {
		case err != nil:
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		case !strings.Contains(subject, "="):
			return nil, fmt.Errorf("%s:%d: want a role and the subject of a certificate, such as: operator CN=alice,O=Example", name, n)
		case twice:
			return nil, fmt.Errorf("%s:%d: %s occurs twice", name, n, subject)
		}
		c.by[subject] = x
	}
	return c, s.Err()
}

// Of is the caller whose certificate has this subject; false: it has no role.
func (c *Clients) Of(subject string) (Caller, bool) {
	if c == nil {
		return Caller{}, false
	}
	x, ok := c.by[subject]
	return x, ok
}
