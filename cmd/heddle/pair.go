package main

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"heddle/daemon/eventlog"
	"heddle/daemon/process"
	"heddle/mad"
	"heddle/replica"
	"heddle/replica/live"
	"heddle/sm"
	"heddle/store"
	"heddle/store/journal"
	"heddle/subnet"
	"heddle/webhook"
)

// paired is the authority of a manager with a partner. The port is closed after its Run.
func (f smFlags) paired(cmd *cobra.Command, core *sm.Config, st store.Store, events *eventlog.Log, partner *webhook.Partner, log *slog.Logger) (a process.Authority, port mad.Transport, err error) {
	ctx, h := cmd.Context(), f.HA.Complete()
	keep, ok := st.(journal.Store)
	if !ok {
		return nil, nil, errors.New("the state has no journal") // settings.Check wants a directory
	}
	tls, err := live.LoadTLS(h.Certificate, h.Key, h.Authority)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.From("peer"), err)
	}
	secret, err := live.LoadSecret(h.Secret)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.From("peer"), err)
	}
	if err := f.readable(log); err != nil {
		return nil, nil, err
	}
	if port, err = patiently(ctx, f.Port, log); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			port.Close()
		}
	}()
	if port.PortGUID() == h.PeerGUID {
		return nil, nil, usagef("%s %v is that of this manager's own port; want that of the other manager's", f.From("peer-guid"), h.PeerGUID)
	}
	cfg := process.PairConfig{
		Live: live.Config{
			Rules: replica.Defaults(port.PortGUID(), h.PeerGUID), Store: keep, Port: port, ClaimWait: f.ClaimWait,
			Listen: h.Listen, Peer: h.Peer, TLS: tls, Secret: secret,
			Priority: core.Priority, SMKey: core.SMKey, ForkDir: f.Files.State, Log: log,
			Tell: partner.Tell, OnTold: partner.Take, Settings: f.common(cmd.Name(), log),
		},
		Active: h.PeerAPI, Events: events, SetActive: partner.SetActive, Log: log,
	}
	if core.FloatLID {
		c := *core
		c.PortGUID = port.PortGUID()
		cfg.Prepare = func(s *subnet.Snapshot) (*sm.Float, error) { return sm.PrepareFloat(s, &c, 0) }
	}
	a, err = process.NewPair(cfg)
	return a, port, err
}

// readable refuses files that the manager could not read when it takes over.
func (f smFlags) readable(log *slog.Logger) error {
	parts, err := f.readPartitions(log)
	if err == nil {
		_, err = f.readOptions(parts, log)
	}
	if err == nil {
		_, err = f.readThresholds()
	}
	if err == nil {
		_, err = f.readCabling(nil)
	}
	return err
}

// managePair runs a manager with a partner.
func (f smFlags) managePair(cmd *cobra.Command, m managed, st store.Store) error {
	m.events = f.eventLog(m.log)
	m.partner = webhook.NewPartner()
	a, port, err := f.paired(cmd, &m.core, st, m.events, m.partner, m.log)
	if err != nil {
		return err
	}
	defer port.Close()
	m.authority, m.device = a, port
	if !f.Given("sa-key") {
		m.log.Warn("each manager of the pair has an SA key of its own: if hosts or tools use it, give both the same with --sa-key", "kind", "ha_sa_key")
	}
	m.log.Info("this is one of a pair of managers", "port_guid", port.PortGUID().String(), "peer", f.HA.Peer, "peer_guid", f.HA.PeerGUID.String())
	return f.manage(cmd, m)
}
