package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"heddle/api"
	"heddle/daemon"
	"heddle/drain"
	"heddle/fabric/cabling"
	"heddle/ib"
	"heddle/partition"
	"heddle/perf/findings"
	"heddle/qos"
	"heddle/sa"
	"heddle/sa/osmsa"
	"heddle/sm"
	"heddle/store"
)

// openPartitions is a partitions.conf that permits everything, like no partitions
// at all.
const openPartitions = `"Default=0x7fff, ipoib : ALL=full ;"`

// administer adds the contents of the SA's files to a daemon's configuration, which
// already has its store. With inherited, stored partitions count and not those of the file.
func (f smFlags) administer(cfg *daemon.Config, inherited bool, key uint64, log *slog.Logger) error {
	stored, err := cfg.Store.Load()
	if err != nil {
		return err
	}
	// The manager reports a damaged policy; it does not matter here.
	inForce, _ := sm.StoredPartitions(stored.Records)
	cfg.PartitionsFile = f.Files.Partitions
	switch cfg.Partitions, err = f.readPartitions(log); {
	case inherited && inForce != nil:
		// A manager that takes over changes no P_Key.
		if err != nil || cfg.Partitions != nil && !cfg.Partitions.Equal(inForce) {
			log.Warn("the file of partitions differs from the partitions of the pair, which stay in force: send SIGHUP to apply it", "kind", "partitions_differ", "file", f.Files.Partitions)
		}
		cfg.Partitions, err = nil, nil
	case err == nil:
	case errors.Is(err, partition.ErrNothing) && inForce == nil:
		// The default without --partitions, and OpenSM's behavior with such a file.
		log.Warn(err.Error() + ": every port is a full member of the default partition; to make that explicit, write  " + openPartitions)
	case errors.Is(err, partition.ErrNothing):
		log.Warn(err.Error() + ": the stored partitions stay in force; to open the subnet, write  " + openPartitions)
	case inForce == nil:
		return fmt.Errorf("%w (for a subnet without partitions leave --partitions out, or write %s)", err, openPartitions)
	default:
		// A subnet needs a manager, so it starts with the partitions in force.
		cfg.PartitionsErr = err
	}
	if cfg.Warm != nil && !inherited && cfg.Partitions != nil && (inForce == nil || !cfg.Partitions.Equal(inForce)) {
		log.Warn("what was published before the restart is not used, because the partitions are others: the subnet is read before queries are answered", "kind", "checkpoint")
		cfg.Warm = nil
	}
	if cfg.SA, err = f.readOptions(cmp.Or(cfg.Partitions, inForce), log); err != nil {
		return err
	}
	cfg.SA.SAKey, cfg.SA.TrustLocal = key, key != 0
	if cfg.Thresholds, err = f.readThresholds(); err != nil {
		return err
	}
	cfg.Actions = f.actions(cfg.Thresholds)
	cfg.Cabling, err = f.readCabling(cfg.Core.Names)
	return err
}

// takeOver imports OpenSM's SA dump into the store, if that has no such state
// yet.
func (f smFlags) takeOver(st store.Store, log *slog.Logger) error {
	if f.Files.SADump == "" {
		return nil
	}
	have, err := st.Load()
	if err != nil {
		return err
	}
	for i := range have.Records {
		if have.Records[i].Table != store.TablePartitions {
			log.Info("--sa-db is ignored: the state already has groups, services or subscriptions", "file", f.Files.SADump)
			return nil
		}
	}
	in, err := os.Open(f.Files.SADump)
	if err != nil {
		return fmt.Errorf("%s: %w", f.From("sa-db"), err)
	}
	defer in.Close()
	recs, warnings, err := osmsa.Read(in, f.Files.SADump, time.Now().UnixNano())
	if err != nil {
		return fmt.Errorf("%s: %w", f.From("sa-db"), err)
	}
	for _, w := range warnings {
		log.Warn("OpenSM's SA dump: "+w.Text, "file", f.Files.SADump, "line", w.Line)
	}
	ops := make([]store.Op, len(recs))
	for i := range recs {
		ops[i] = store.Op{Kind: store.PutRecord, Record: recs[i]}
	}
	if err := st.Apply(ops); err != nil {
		return err
	}
	log.Info("imported OpenSM's SA dump", "file", f.Files.SADump, "records", len(recs))
	return nil
}

// readPartitions reads the file of partitions; nil if none was given. A file
// without a statement gives partition.ErrNothing.
func (f smFlags) readPartitions(log *slog.Logger) (*partition.Policy, error) {
	if f.Files.Partitions == "" {
		return nil, nil
	}
	in, err := os.Open(f.Files.Partitions)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.From("partitions"), err)
	}
	defer in.Close()
	p, warnings, err := partition.Parse(in, f.Files.Partitions)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.From("partitions"), err)
	}
	for _, w := range warnings {
		log.Warn("partitions: " + w.String())
	}
	return p, nil
}

// readOptions reads the files on which answers depend. parts are the partitions
// that a QoS policy may name; nil: the default one.
func (f smFlags) readOptions(parts *partition.Policy, log *slog.Logger) (*sa.Options, error) {
	o := f.SA
	if f.Files.PrefixRoutes != "" {
		in, err := os.Open(f.Files.PrefixRoutes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.From("prefix-routes"), err)
		}
		defer in.Close()
		if o.PrefixRoutes, err = sa.ParsePrefixRoutes(in, f.Files.PrefixRoutes); err != nil {
			return nil, fmt.Errorf("%s: %w", f.From("prefix-routes"), err)
		}
	}
	if f.Files.QoSPolicy != "" {
		in, err := os.Open(f.Files.QoSPolicy)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.From("qos-policy"), err)
		}
		defer in.Close()
		if parts == nil {
			parts = partition.Default()
		}
		policy, warnings, err := qos.Parse(in, f.Files.QoSPolicy, parts)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.From("qos-policy"), err)
		}
		for _, w := range warnings {
			log.Warn("QoS policy: " + w.String())
		}
		o.QoS = policy
	}
	return &o, nil
}

// readThresholds reads the file with thresholds of findings; nil: none was given.
func (f smFlags) readThresholds() (*findings.Thresholds, error) {
	t, err := thresholdsOf(f.Files.Thresholds)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.From("findings-thresholds"), err)
	}
	return t, nil
}

// actions are what rules may do, by their table with these thresholds.
func (f smFlags) actions(t *findings.Thresholds) drain.Config {
	a := f.Actions
	a.Acts = drain.Acts(t.Rules())
	return a
}

// readCabling reads the plan of the cables; nil: none was given.
func (f smFlags) readCabling(names map[ib.GUID]string) (*daemon.CablingPlan, error) {
	c := &f.Cabling
	if c.File == "" {
		return nil, nil
	}
	in, err := os.Open(c.File)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.From("cabling"), err)
	}
	defer in.Close()
	if info, err := in.Stat(); err == nil && info.Size() > api.MaxPlan {
		return nil, fmt.Errorf("%s: %s is larger than the limit of %d bytes", f.From("cabling"), c.File, api.MaxPlan)
	}
	p, err := cabling.Read(io.LimitReader(in, api.MaxPlan), c.File)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.From("cabling"), withoutPackage(err))
	}
	return &daemon.CablingPlan{Name: c.File, Plan: p, Names: names, Partial: c.Partial, Ignore: c.Ignored()}, nil
}

// thresholdsOf reads a file of thresholds; nil without a name.
func thresholdsOf(file string) (*findings.Thresholds, error) {
	if file == "" {
		return nil, nil
	}
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return findings.ParseThresholds(in, file)
}
