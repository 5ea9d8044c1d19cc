package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"heddle/api"
	"heddle/internal/plural"
	"heddle/settings"
)

// defaultAPI is the default address of a daemon's API.
const defaultAPI = settings.DefaultAPI

// maxReply bounds a response: the links of a full subnet are some tens of
// megabytes of JSON.
const maxReply = 256 << 20

func newCtl() *cobra.Command {
	c := &cobra.Command{
		Use:     "ctl",
		GroupID: "manage",
		Short:   "Query and control a running manager: status, nodes, links, repairs, sweeps, paths, groups, events; sweep, reroute, partitions, vm, token, audit",
		Long: `Talks to the HTTP API of a running 'heddle sm' or 'heddle up'.

Without --api it uses the daemon that the same user started last on this machine,
at any address; otherwise, as root, the manager that runs as heddle@PORT.service,
at unix:/run/heddle/PORT/api.sock, if there is one alone; and otherwise
127.0.0.1:7480.

Reading needs no token on the daemon's machine. Commands that change something
(sweep, reroute, those of partitions, congestion mode, vm, token) need a role: by the
token that the daemon wrote to its token file, readable by its own user, by the
daemon's Unix socket, or by a named token (--token-file). ctl finds the first when
it runs as that user on the same machine. Both use the runtime directory:
/run/heddle for root, otherwise heddle in XDG_RUNTIME_DIR or /run/user/UID,
otherwise /tmp/heddle-UID; HEDDLE_RUNTIME_DIR overrides it.`,
		Example: `  heddle ctl status
  heddle ctl links --json
  heddle ctl sweep --api unix:/run/heddle/api.sock`,
		Args: subcommandOnly,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	nodes := ctlCommand("nodes", "Every node with its LID and directed route", http.MethodGet, "/v1/nodes", printNodes)
	links := ctlCommand("links", "Every link with the state of both ends", http.MethodGet, "/v1/links", printLinks)
	sweep := ctlCommand("sweep", "Start a full sweep", http.MethodPost, "/v1/sweep", func(w io.Writer, _ []byte) error {
		_, err := fmt.Fprintln(w, "sweep requested; 'heddle ctl status' shows its progress")
		return err
	})
	repairs := ctlCommand("repairs", "The last faults, the pairs they broke and the repairs", http.MethodGet, "/v1/repairs", printRepairs)
	repairs.Long = `Lists the last repairs, the newest first, at most 32. A pair is a switch with a
host and the LID of a host; pairs without a physical path do not count. The time
of a repair is from the first sign of the fault to the answer that acknowledges
the last block that connects a pair. With "cycle" in the last column packets
could wait for each other in a cycle until switches discarded them; --json
names the channels.`
	var rebalance, dry bool
	path := func() string {
		return "/v1/reroute?rebalance=" + strconv.FormatBool(rebalance) + "&dry_run=" + strconv.FormatBool(dry)
	}
	reroute := ctlCommandTo("reroute", "Compute all routes from scratch, without reading the fabric again", http.MethodPost, path, printRoutePlan)
	reroute.Flags().BoolVar(&dry, "dry-run", false, "compute and prove the tables, and only show the changes")
	reroute.Flags().BoolVar(&rebalance, "rebalance", false, "ignore the installed tables: balances the load again after many changes, but writes more entries")
	for _, s := range slices.Concat([]*cobra.Command{ctlStatus(), ctlHealth(), nodes, links, repairs, ctlSweeps(), sweep, reroute}, ctlAdministration(), ctlVirtual(), []*cobra.Command{
		ctlPerf(), ctlFindings(), ctlHotSpots(), ctlCongestion(),
		ctlHA(), ctlEvents(), ctlWebhooks(),
		ctlRails(), ctlTopology(), ctlCabling(), ctlPort(),
		ctlToken(), ctlAudit(), ctlWhoami(),
		ctlReload(), ctlLogLevel(), ctlSupport(),
	}) {
		c.AddCommand(s)
	}
	return c
}

func ctlCommand(name, short, method, path string, show func(io.Writer, []byte) error) *cobra.Command {
	return ctlCommandTo(name, short, method, func() string { return path }, show)
}

// ctlCommandTo is ctlCommand for a path that depends on flags.
func ctlCommandTo(name, short, method string, path func() string, show func(io.Writer, []byte) error) *cobra.Command {
	var o ctlOptions
	c := &cobra.Command{
		Use:   name,
		Short: short,
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.ask(cmd, method, path(), nil, show)
		},
	}
	o.register(c)
	return c
}

// ctlOptions are the common flags of ctl's commands.
type ctlOptions struct {
	place
	asJSON bool
}

// place is where the API of a manager is, and how to get in.
type place struct {
	addr, tokenFile string
	ca, cert, key   string // files, for https
	match           string // the revision that a change is for; empty: any
}

// registerPlace adds the flags of where the manager is.
func (o *ctlOptions) registerPlace(c *cobra.Command) {
	c.Flags().StringVar(&o.addr, "api", "", "`ADDR` of the manager's API: HOST:PORT, https://HOST:PORT or unix:PATH (default: that of this user's last started daemon, otherwise "+defaultAPI+")")
	c.Flags().StringVar(&o.tokenFile, "token-file", "", "`FILE` with the token (default: that of this user's daemon)")
	c.Flags().StringVar(&o.ca, "ca", "", "https: `FILE` with the certificate of the authority that signed the manager's certificate (default: this machine's authorities)")
	c.Flags().StringVar(&o.cert, "cert", "", "https: `FILE` with a client certificate, which has a role (--api-clients)")
	c.Flags().StringVar(&o.key, "key", "", "https: `FILE` with its key")
}

func (o *ctlOptions) register(c *cobra.Command) {
	o.registerPlace(c)
	c.Flags().BoolVar(&o.asJSON, "json", false, "print the API's JSON")
}

// ask makes a request and shows its response. A body that is not nil is sent as
// JSON.
func (o *ctlOptions) ask(cmd *cobra.Command, method, path string, body any, show func(io.Writer, []byte) error) error {
	answer, err := o.call(cmd.Context(), method, path, body)
	if err != nil {
		return err
	}
	if !o.asJSON {
		return show(cmd.OutOrStdout(), answer)
	}
	if len(answer) == 0 {
		answer = []byte("{}")
	}
	return printJSON(cmd.OutOrStdout(), json.RawMessage(answer))
}

// located is the API of a manager.
type located struct {
	addr, base, token string
	found             string // the file of the token, unless the user named it
	match             string // of If-Match
	transport         *http.Transport
}

// locate finds the API at an address, or without one that of this user's daemon, and the
// token that permits changes, if this user may read it.
func (o *place) locate() (m located, err error) {
	addr, found := o.addr, ""
	host, secure := strings.CutPrefix(addr, "https://")
	if secure {
		m = located{addr: addr, base: "https://" + strings.TrimSuffix(host, "/"), transport: &http.Transport{}}
		if m.transport.TLSClientConfig, err = o.tls(); err == nil && o.tokenFile != "" { // none is found for another machine
			m.token, err = readToken("", o.tokenFile)
		}
		return m, err
	}
	if o.ca != "" || o.cert != "" || o.key != "" {
		return m, usagef("--ca, --cert and --key are for --api https://HOST:PORT")
	}
	if addr == "" {
		if addr, found, err = findAPI(); err != nil {
			return m, err
		}
	}
	addr = strings.TrimSuffix(strings.TrimPrefix(addr, "http://"), "/") // the page's address does too
	if host, port, err := net.SplitHostPort(addr); err == nil && host == "" {
		addr = net.JoinHostPort("127.0.0.1", port)
	} else if err != nil && !strings.HasPrefix(addr, "unix:") {
		return m, usagef("--api %q: want HOST:PORT, https://HOST:PORT or unix:PATH", o.addr)
	}
	m = located{addr: addr, base: "http://" + addr, transport: &http.Transport{}}
	if sock, ok := strings.CutPrefix(addr, "unix:"); ok {
		m.base = "http://localhost"
		m.transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", sock)
		}
	}
	if found == "" {
		found = tokenPath(addr)
	}
	if o.tokenFile == "" {
		m.found = found
	}
	m.token, err = readToken(found, o.tokenFile)
	return m, err
}

// tls is the configuration of a client.
func (o *place) tls() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.ca != "" {
		b, err := os.ReadFile(o.ca)
		if err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(b) {
			return nil, usagef("--ca %s: it has no certificate in PEM", o.ca)
		}
	}
	if (o.cert == "") != (o.key == "") {
		return nil, usagef("give both --cert and --key")
	}
	if o.cert != "" {
		pair, err := tls.LoadX509KeyPair(o.cert, o.key)
		if err != nil {
			return nil, fmt.Errorf("--cert, --key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// call makes one request of the API and returns the body of a successful
// response.
func (o *place) call(ctx context.Context, method, path string, body any) ([]byte, error) {
	m, err := o.locate()
	if err != nil {
		return nil, err
	}
	m.match = o.match
	resp, err := m.request(ctx, method, path, body, maxWait+10*time.Second)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return nil, fmt.Errorf("reading the response of the manager at %s: %w", m.addr, err)
	}
	return answer, nil
}

// request makes one request of the API and returns a successful response, whose body the
// caller closes. It may take as long as limit; 0: any time.
func (m located) request(ctx context.Context, method, path string, body any, limit time.Duration) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, m.base+path, content)
	if err != nil {
		return nil, usagef("--api %q: %w", m.addr, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if m.match != "" {
		req.Header.Set("If-Match", `"`+m.match+`"`)
	}
	if m.token != "" {
		req.Header.Set("Authorization", "Bearer "+m.token)
	}
	client := &http.Client{Transport: m.transport, Timeout: limit}
	resp, err := client.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // avoid repeating the address
		}
		return nil, fmt.Errorf("request to the manager at %s: %w\nIs it running ('heddle sm' or 'heddle up'), and is --api its address?", m.addr, err)
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return nil, fmt.Errorf("reading the response of the manager at %s: %w", m.addr, err)
	}
	text := fmt.Sprintf("the manager at %s says %s: %s", m.addr, resp.Status, problem(answer))
	if resp.StatusCode == http.StatusUnauthorized && m.token != "" && m.found != "" {
		text += fmt.Sprintf("\nThe token is that of %s: if a daemon that has ended left this file, remove it.", m.found)
	}
	return nil, &refusal{resp.StatusCode, text}
}

// refusal is the answer of a manager that did not do what it was asked for.
type refusal struct {
	status int // of HTTP
	text   string
}

func (e *refusal) Error() string { return e.text }

// problem is the readable part of an error body, with the invalid values if
// there are any.
func problem(body []byte) string {
	var p struct {
		Detail string
		Errors []struct {
			Message, Location string
			Value             any
		}
	}
	if json.Unmarshal(body, &p) == nil && p.Detail != "" {
		var out strings.Builder
		out.WriteString(p.Detail)
		for i, e := range p.Errors {
			sep := "; "
			if i == 0 {
				sep = ": "
			}
			out.WriteString(sep + e.Message)
			if e.Location != "" {
				out.WriteString(fmt.Sprintf(" (%s %.60s)", e.Location, fmt.Sprint(e.Value))) // the value may be the whole body
			}
		}
		return out.String()
	}
	return strings.TrimSpace(string(body))
}

// tokenPath is the token file of the daemon with that API address.
func tokenPath(addr string) string {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		port = "api"
	}
	return filepath.Join(runtimeDir(), "token-"+port)
}

// readToken reads the token's file, by default the one found.
func readToken(found, file string) (string, error) {
	given := file != ""
	if !given {
		file = found
	}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && !given || errors.Is(err, fs.ErrPermission) && !given {
		return "", nil // reading works without a token
	}
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" && given {
		return "", fmt.Errorf("token: %s is empty", file)
	}
	return token, nil
}

// counted formats a number of things: 1 switch, 2 switches.
func counted[T int | uint64](n T, what string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(what, "ch"):
		what += "es"
	default:
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// carriedOut describes how far the partitions are programmed.
func carriedOut(p *api.PartitionStatus) string {
	text := "all ports have acknowledged their table"
	switch {
	case p.Pending > 0:
		text = fmt.Sprintf("%s %s not acknowledged their table yet", plural.Of(p.Pending, "port"), plural.Verb(p.Pending, "has", "have"))
	case !p.Settled:
		text = "state not yet known"
	}
	if p.Quarantined > 0 {
		text += fmt.Sprintf("; %d freed P_Keys wait for their removal", p.Quarantined)
	}
	return text
}

func printNodes(w io.Writer, body []byte) error {
	return printList(w, body, "no nodes: this manager has not read the fabric; 'heddle ctl status' shows its state", "GUID\tTYPE\tPORTS\tLID\tDESCRIPTION\tSTATE\tPATH", func(t io.Writer, n *api.Node) {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\t%s\n", n.GUID, n.Type, n.Ports, n.LID, plain(n.Description), n.State, n.Path)
	})
}

func printLinks(w io.Writer, body []byte) error {
	return printList(w, body, "no links", "FROM\tPORT\tTO\tPORT\tWIDTH\tSPEED\tMTU\tVLS\tSTATE", func(t io.Writer, l *api.Link) {
		fmt.Fprintf(t, "%s\t%d\t%s\t%d\t%s\t%s\t%d\t%d\t%s\n", plain(l.A.Description), l.A.Port, plain(l.B.Description), l.B.Port,
			l.Width, l.Speed, l.MTU, l.VLs, l.State)
	})
}
