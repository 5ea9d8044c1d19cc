package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"heddle/daemon/process"
	"heddle/replica/live"
	"heddle/replica/members"
	"heddle/store"
	"heddle/store/etcd"
	"heddle/store/journal"
)

// etcdOptions are those of the cluster that --store names.
func (f smFlags) etcdOptions(log *slog.Logger) (o etcd.Options, err error) {
	e := &f.Etcd
	o = etcd.Options{User: e.User, Wait: e.Wait, NoCompact: e.NoCompact, Log: log}
	if o.Endpoints, o.Prefix, err = etcd.ParseURL(e.Store); err != nil {
		return o, usagef("%s: %w", f.From("store"), err)
	}
	if e.Authority != "" {
		if o.TLS, err = etcd.LoadTLS(e.Authority, e.Certificate, e.Key); err != nil {
			return o, fmt.Errorf("%s: %w", f.From("etcd-ca"), err)
		}
	}
	if e.Password != "" {
		b, err := os.ReadFile(e.Password)
		if err != nil {
			return o, fmt.Errorf("%s: %w", f.From("etcd-password-file"), err)
		}
		if o.Password = strings.TrimSpace(string(b)); o.Password == "" {
			return o, usagef("%s %q: the file is empty", f.From("etcd-password-file"), e.Password)
		}
	}
	o.Name, _ = os.Hostname() // for people alone
	return o, nil
}

// etcdPatience is how often the start says that etcd does not answer.
const etcdPatience = 10 * time.Second

// openEtcd opens the shared state. It waits for etcd as long as it takes: a manager that does not know
// what has been stored would give LIDs and P_Keys anew.
func (f smFlags) openEtcd(ctx context.Context, log *slog.Logger) (*etcd.Store, error) {
	o, err := f.etcdOptions(log)
	if err != nil {
		return nil, err
	}
	say := func(why error) { log.Warn("waiting for etcd", "store", f.Etcd.Store, "err", why) }
	for ; ; say = func(error) {} {
		limited, cancel := context.WithTimeout(ctx, etcdPatience)
		st, err := openSaying(limited, o, say)
		cancel()
		switch {
		case err == nil:
			return st, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !errors.Is(err, store.ErrUnavailable):
			return nil, fmt.Errorf("%s: %w", f.From("store"), err)
		}
		log.Error("the shared state cannot be read; waiting for etcd", "store", f.Etcd.Store, "err", err)
	}
}

// members are the streams with the other managers of a shared state.
func (f smFlags) members(cfg members.Config) (*members.Members, error) {
	h := f.HA.Complete()
	tls, err := live.LoadTLS(h.Certificate, h.Key, h.Authority)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.From("peer"), err)
	}
	cfg.Listen, cfg.Peers, cfg.TLS = h.Listen, h.Peers(), tls
	return members.New(cfg)
}

// manageQuorum runs a manager whose state others share.
func (f smFlags) manageQuorum(cmd *cobra.Command, m managed) error {
	st, err := f.openEtcd(cmd.Context(), m.log)
	if err != nil {
		return err
	}
	defer st.Close()
	if f.Etcd.Authority == "" {
		m.log.Warn("the shared state, with its keys, goes to etcd unencrypted; give --etcd-ca", "kind", "open_configuration")
	}
	q := &process.Quorum{Single: *single(&m, st), Terms: st, Log: m.log, Wait: f.Etcd.Wait}
	if f.HA.Peer != "" {
		last := func() journal.Mark {
			m, _ := st.Synced()
			return m
		}
		m.events = f.eventLog(m.log)
		cfg := members.Config{
			Last: last, Log: m.log, Changed: q.Changed,
			Settings: f.common(cmd.Name(), m.log), OnDiffer: process.Differing(m.events),
		}
		if q.Members, err = f.members(cfg); err != nil {
			return err
		}
	}
	m.authority = q
	return exitStatus(f.manage(cmd, m))
}
