package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"heddle/agent"
	"heddle/agent/live"
	"heddle/api/listen"
	"heddle/logs"
	"heddle/settings"
)

// agentFlags are the flags of heddle agent.
type agentFlags struct {
	ports      []string
	acm        []string
	netlink    string
	addresses  string
	control    string
	metrics    string
	logLevel   string
	wait       time.Duration
	kernelWait time.Duration
	core       agent.Config
}

// usualACM is where librdmacm and ib_acme look for ibacm.
const usualACM = "/run/ibacm-unix.sock=/run/ibacm.sock"

// agentSocket is the default place of the control socket.
func agentSocket() string { return filepath.Join(runtimeDir(), "agent.sock") }

// liveAgent is the control socket to ask: this user's agent's, otherwise that of
// heddle-agent.service.
func liveAgent() string {
	own := agentSocket()
	packaged := filepath.Join(serviceDir, "agent", "agent.sock")
	if os.Getenv(runtimeVariable) == "" && !answers("unix:"+own) && answers("unix:"+packaged) {
		return packaged
	}
	return own
}

func newAgent() *cobra.Command {
	f := agentFlags{core: agent.Defaults()}
	c := &cobra.Command{
		Use:     "agent [--port PORT...]",
		GroupID: "manage",
		Short:   "Cache the path records of a host, for its programs and its kernel",
		Long: `Runs on each host. It answers path queries from a cache, so that the SA gets one
query for a path and not one for each connection:

  - queries of programs with librdmacm, and of ib_acme, in place of ibacm (--acm);
  - queries of the kernel (IPoIB, rdma_cm, SRP), over the RDMA netlink (--netlink).

A path is kept only if the SA permits it (heddle sm
--subnet-supports-sa-path-caching), and leaves the cache when the SA reports a
change of it, when the port's addresses change, and by age. If the agent has no
answer, the kernel queries the SA itself.

Only one service per host can have these sockets: stop ibacm first. Start the
agent before the programs: librdmacm opens the socket once, and a program that
does not find it never uses the agent. See docs/hosts.md and the units
heddle-agent.socket and heddle-agent.service.`,
		Example: `  heddle agent
  heddle agent --port umad:mlx5_0/1 --addresses /etc/rdma/ibacm_hosts.data
  heddle attach host-3@net -- heddle agent --acm /tmp/acm.sock --netlink off`,
		Args: subcommandOnly,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fl := c.Flags()
	fl.StringArrayVar(&f.ports, "port", nil, "`PORT` to serve, umad:DEVICE/PORT; can be given more than once (default: all whose link is up)")
	fl.StringArrayVar(&f.acm, "acm", []string{usualACM}, "`SOCKET` for programs: a path, a path=link, or HOST:PORT of this machine; can be given more than once; none for no socket")
	fl.StringVar(&f.netlink, "netlink", "auto", "answer the kernel's queries: `MODE` auto (if permitted), on (or fail), off")
	fl.StringVar(&f.addresses, "addresses", "", "`FILE` of IP addresses or names and their GIDs, as ibacm_hosts.data")
	fl.StringVar(&f.control, "control", "", "`PATH` of the control socket, for show and flush (default: agent.sock in the runtime directory)")
	fl.StringVar(&f.metrics, "metrics", "", "`ADDR` HOST:PORT of this machine for Prometheus")
	fl.StringVar(&f.logLevel, "log-level", "info", "`LEVEL` of the log: debug, info, warn, error")
	fl.DurationVar(&f.wait, "wait", time.Second, "`T` at most until a program has its answer")
	fl.DurationVar(&f.kernelWait, "kernel-wait", 150*time.Millisecond, "`T` at most until the kernel has its answer; then it asks the SA itself")
	fl.DurationVar(&f.core.MaxAge, "max-age", f.core.MaxAge, "`T` for which a path is served after it was asked for")
	fl.DurationVar(&f.core.VerifyTime, "verify-time", f.core.VerifyTime, "`T` between queries to the SA for changed paths")
	fl.DurationVar(&f.core.StaleTime, "stale-time", f.core.StaleTime, "`T` beyond its age for which a path is served while the SA is silent")
	fl.IntVar(&f.core.MaxEntries, "max-entries", f.core.MaxEntries, "`N` answers in each port's cache, about 400 bytes each")
	c.AddCommand(agentShow(), agentFlush())
	return c
}

func (f *agentFlags) check() error {
	c := &f.core
	switch {
	case f.wait > time.Minute:
		return usagef("--wait %v: want 0 to 1m", f.wait)
	case f.kernelWait > 10*time.Second:
		return usagef("--kernel-wait %v: want 0 to 10s", f.kernelWait)
	case c.MaxAge < time.Second || c.VerifyTime < time.Second:
		return usagef("--max-age and --verify-time must be 1s or more")
	case c.MaxEntries < 1 || c.MaxEntries > 1<<22:
		return usagef("--max-entries %d: want 1 to %d", c.MaxEntries, 1<<22)
	}
	switch f.netlink {
	case "auto", "on", "off":
	default:
		return usagef("--netlink %q: want auto, on or off", f.netlink)
	}
	return nil
}

func (f *agentFlags) run(cmd *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return usagef("--log-level %q: want debug, info, warn or error", f.logLevel)
	}
	cfg := live.Config{
		Core: f.core, Wait: f.wait, KernelWait: f.kernelWait,
		Log: slog.New(logs.Limited(localLog(cmd.ErrOrStderr(), settings.LogAuto, level))),
	}
	cfg.Core.FirstTID = rand.Uint32()
	var err error
	if cfg.Ports, err = agentPorts(f.ports); err != nil {
		return err
	}
	if cfg.Addresses, err = readAddresses(f.addresses); err != nil {
		return err
	}
	defer func() { closeSockets(&cfg) }() // those that no server took
	if err := f.listen(&cfg); err != nil {
		return err
	}
	ctx, cancel := cancelable(cmd)
	defer cancel()
	s, err := live.New(cfg)
	if err != nil {
		return err
	}
	stop, err := f.serveControl(ctx, s)
	if err != nil {
		return err
	}
	defer stop()
	var names []string
	for _, p := range cfg.Ports {
		names = append(names, fmt.Sprintf("%s/%d", p.Device, p.Num))
	}
	fmt.Fprintln(cmd.OutOrStdout(), "AGENT READY", strings.Join(names, " "))
	s.Run(ctx)
	return nil
}

func readAddresses(path string) (*live.Addresses, error) {
	if path == "" {
		return live.NewAddresses(nil)
	}
	r, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--addresses: %w", err)
	}
	defer r.Close()
	a, err := live.NewAddresses(r)
	if err != nil {
		return nil, inputError("--addresses "+path, err)
	}
	return a, nil
}

func closeSockets(cfg *live.Config) {
	for _, l := range cfg.ACM {
		l.Close()
	}
	if cfg.Netlink != nil {
		cfg.Netlink.Close()
	}
}

// listen opens the sockets for programs and the kernel, or takes those of systemd.
func (f *agentFlags) listen(cfg *live.Config) error {
	var err error
	if cfg.ACM, cfg.Netlink, err = live.Activated(); err != nil {
		return err
	}
	if len(cfg.ACM) == 0 {
		for _, spec := range f.acm {
			if spec == "none" || spec == "" {
				continue
			}
			l, err := live.ListenACM(spec)
			if errors.Is(err, os.ErrPermission) {
				err = fmt.Errorf("%w; name a place of your own with --acm, or none", err)
			}
			if err != nil {
				return err
			}
			cfg.ACM = append(cfg.ACM, l)
		}
	}
	switch {
	case f.netlink == "off":
		if cfg.Netlink != nil {
			cfg.Netlink.Close()
			cfg.Netlink = nil
		}
		cfg.NetlinkMissing = "--netlink off"
	case cfg.Netlink == nil:
		n, err := live.OpenNetlink()
		if err != nil && f.netlink == "on" {
			return err
		}
		if err != nil {
			cfg.Log.Warn("the kernel's questions are not served: its own users (IPoIB, RDS, NFS) ask the SA", "err", err)
			cfg.NetlinkMissing = err.Error()
			return nil
		}
		cfg.Netlink = n
	}
	return nil
}

// serveControl serves the control socket and the metrics.
func (f *agentFlags) serveControl(ctx context.Context, s *live.Server) (stop func(), err error) {
	path := f.control
	if path == "" {
		if err := makePrivate(runtimeDir()); err != nil {
			return nil, err
		}
		path = agentSocket()
	}
	l, err := listen.Unix(path)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	serve := []func() error{func() error { return listen.Serve(ctx, l, s.Control()) }}
	if f.metrics != "" {
		m, err := listen.API(f.metrics, nil)
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("--metrics: %w", err)
		}
		h := http.NewServeMux()
		h.Handle("GET /metrics", s.Metrics())
		serve = append(serve, func() error { return listen.Serve(ctx, m, h) })
	}
	done := make(chan struct{}, len(serve))
	for _, f := range serve {
		go func() {
			_ = f()
			done <- struct{}{}
		}()
	}
	return func() {
		for range serve {
			<-done
		}
	}, nil
}

// askAgent sends a request to the control socket.
func askAgent(ctx context.Context, socket, method, path string, body io.Reader) ([]byte, error) {
	if socket == "" {
		socket = liveAgent()
	}
	c := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	req, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, body)
	if err != nil {
		return nil, err
	}
	r, err := c.Do(req)
	if errors.Is(err, os.ErrNotExist) || err != nil && strings.Contains(err.Error(), "connection refused") {
		return nil, fmt.Errorf("no agent serves %s; start 'heddle agent', or name its socket with --control", socket)
	}
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(io.LimitReader(r.Body, maxReply))
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("the agent refuses: %s", strings.TrimSpace(string(b)))
	}
	return b, err
}
