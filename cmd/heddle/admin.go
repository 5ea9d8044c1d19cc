package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"heddle/daemon"
	"heddle/partition"
	"heddle/qos"
	"heddle/sa"
	"heddle/sa/osmsa"
	"heddle/store"
)

// adminFlags are the settings of partitions and of the subnet administrator.
type adminFlags struct {
	partitions  string
	qos         string
	saKey       string
	saDB        string
	pathCaching uint8
	routes      string
	queue       int
	queueEach   int
}

func (f *adminFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.partitions, "partitions", "", "`FILE` of partitions, in the form of OpenSM's partitions.conf; read again on SIGHUP; default: those stored, else everybody in the default partition")
	fs.StringVar(&f.qos, "qos-policy", "", "`FILE` with the QoS policy of path answers, in the form of OpenSM's qos-policy.conf; read again on SIGHUP")
	fs.StringVar(&f.saDB, "sa-db", "", "`FILE` that OpenSM kept its SA in (opensm-sa.dump): groups, services, subscriptions and alias GUIDs are taken over, unless the state has some of its own")
	fs.StringVar(&f.routes, "prefix-routes", "", "`FILE` of routers to other subnets, in the form of OpenSM's prefix-routes.conf: a subnet prefix and a router's port GUID a line, * for any; read again on SIGHUP")
	fs.StringVar(&f.saKey, "sa-key", "1", "64-bit `KEY` that makes an SA request trusted (OpenSM has 1 too); 0 trusts nobody")
	fs.Uint8Var(&f.pathCaching, "subnet-supports-sa-path-caching", 0, "`BITS` to put into the reserved field at bit offset 353 of PathRecord answers, which tells hosts that they may cache paths; without a value 1, 0 for none")
	fs.Lookup("subnet-supports-sa-path-caching").NoOptDefVal = "1"
	fs.IntVar(&f.queue, "sa-queue", 0, "`MOST` SA requests that wait, of all hosts; 0 = 8192; what is more is answered BUSY")
	fs.IntVar(&f.queueEach, "sa-queue-each", 0, "`MOST` of one LID; 0 = 1024")
}

// configure puts the settings into a daemon's configuration.
func (f *adminFlags) configure(cfg *daemon.Config, log *slog.Logger) error {
	key, err := strconv.ParseUint(f.saKey, 0, 64)
	if err != nil {
		return usagef("--sa-key: want a 64-bit number")
	}
	switch {
	case f.pathCaching > 7:
		return usagef("--subnet-supports-sa-path-caching %d: want 0 to 7", f.pathCaching)
	case f.queue < 0 || f.queue > 65535 || f.queueEach < 0:
		return usagef("--sa-queue: want 0 to 65535, --sa-queue-each must not be negative")
	}
	cfg.Queue, cfg.QueuePerRequester = f.queue, f.queueEach
	p, o, _, err := f.load(log)
	if err != nil {
		return err
	}
	o.SAKey = key
	cfg.Partitions, cfg.SA = p, o
	return nil
}

// takeOver puts what OpenSM's SA kept into the store, if that has nothing of
// the kind yet.
func (f *adminFlags) takeOver(st store.Store, log *slog.Logger) error {
	if f.saDB == "" {
		return nil
	}
	have, err := st.Load()
	if err != nil {
		return err
	}
	for i := range have.Records {
		if have.Records[i].Table != store.TablePartitions {
			log.Info("--sa-db is left alone: the state has groups, services or subscriptions of its own", "file", f.saDB)
			return nil
		}
	}
	in, err := os.Open(f.saDB)
	if err != nil {
		return fmt.Errorf("--sa-db: %w", err)
	}
	defer in.Close()
	recs, warnings, err := osmsa.Read(in, f.saDB, time.Now().UnixNano())
	if err != nil {
		return fmt.Errorf("--sa-db: %w", err)
	}
	for _, w := range warnings {
		log.Warn("OpenSM's SA dump: "+w.Text, "file", f.saDB, "line", w.Line)
	}
	ops := make([]store.Op, len(recs))
	for i := range recs {
		ops[i] = store.Op{Kind: store.PutRecord, Record: recs[i]}
	}
	if err := st.Apply(ops); err != nil {
		return err
	}
	log.Info("what OpenSM's SA kept is taken over", "file", f.saDB, "records", len(recs))
	return nil
}

// load reads the files; all of them are read before any of them counts. config
// is the text of the partitions.
func (f *adminFlags) load(log *slog.Logger) (p *partition.Policy, o *sa.Options, config string, err error) {
	if f.partitions != "" {
		b, err := readBounded("--partitions", f.partitions, partition.MaxFile)
		if err != nil {
			return nil, nil, "", err
		}
		var warnings []partition.Warning
		if p, warnings, err = partition.Parse(bytes.NewReader(b), f.partitions); err != nil {
			return nil, nil, "", fmt.Errorf("--partitions: %w", err)
		}
		for _, w := range warnings {
			log.Warn("partitions: " + w.String())
		}
		config = string(b)
	}
	o = &sa.Options{PathCaching: f.pathCaching}
	if f.routes != "" {
		in, err := os.Open(f.routes)
		if err != nil {
			return nil, nil, "", fmt.Errorf("--prefix-routes: %w", err)
		}
		defer in.Close()
		if o.PrefixRoutes, err = sa.ParsePrefixRoutes(in, f.routes); err != nil {
			return nil, nil, "", fmt.Errorf("--prefix-routes: %w", err)
		}
	}
	if f.qos != "" {
		in, err := os.Open(f.qos)
		if err != nil {
			return nil, nil, "", fmt.Errorf("--qos-policy: %w", err)
		}
		defer in.Close()
		parts := p
		if parts == nil {
			parts = partition.Default()
		}
		policy, warnings, err := qos.Parse(in, f.qos, parts)
		if err != nil {
			return nil, nil, "", fmt.Errorf("--qos-policy: %w", err)
		}
		for _, w := range warnings {
			log.Warn("QoS policy: " + w.String())
		}
		o.QoS = policy
	}
	return p, o, config, nil
}

// reloadOnHangup reads the files again on each SIGHUP until ctx ends. An error
// in one of them leaves everything as it is.
func (f *adminFlags) reloadOnHangup(ctx context.Context, d *daemon.Daemon, log *slog.Logger) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	go func() {
		defer signal.Stop(c)
		for {
			select {
			case <-ctx.Done():
				return
			case <-c:
			}
			if f.partitions == "" && f.qos == "" && f.routes == "" {
				log.Info("SIGHUP: no file was given to read again (--partitions, --qos-policy, --prefix-routes)")
				continue
			}
			if err := f.reload(ctx, d, log); err != nil {
				log.Error("SIGHUP: nothing was changed", "err", err)
			}
		}
	}()
}

func (f *adminFlags) reload(ctx context.Context, d *daemon.Daemon, log *slog.Logger) error {
	p, o, config, err := f.load(log)
	if err != nil {
		return err
	}
	if p != nil {
		if _, err := d.SetPartitions(ctx, config); err != nil {
			return err
		}
	}
	d.SetOptions(*o)
	log.Info("SIGHUP: partitions, QoS policy and prefix routes were read again")
	return nil
}

// readBounded reads a file of at most limit bytes, and one more by which its
// reader sees that it is too large.
func readBounded(flag, path string, limit int64) ([]byte, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	defer in.Close()
	b, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return b, nil
}
