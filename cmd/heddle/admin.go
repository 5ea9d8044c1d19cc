package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"heddle/daemon"
	"heddle/partition"
	"heddle/qos"
	"heddle/sa"
	"heddle/sa/osmsa"
	"heddle/sm"
	"heddle/store"
)

// adminFlags are the settings of partitions and of the subnet administrator.
type adminFlags struct {
	partitions  string
	qos         string
	saKey       string
	saDB        string
	pathCaching uint8
	virtHops    uint8
	virtRecords bool
	routes      string
	queue       int
	queueEach   int
	consolidate bool
	exclusive   bool
	dropAfter   time.Duration
	assigned    uint8
}

func (f *adminFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.partitions, "partitions", "", "`FILE` of partitions, in the form of OpenSM's partitions.conf; read again on SIGHUP; default: those stored, else everybody in the default partition")
	fs.StringVar(&f.qos, "qos-policy", "", "`FILE` with the QoS policy of path answers, in the form of OpenSM's qos-policy.conf; read again on SIGHUP")
	fs.StringVar(&f.saDB, "sa-db", "", "`FILE` that OpenSM kept its SA in (opensm-sa.dump): groups, services, subscriptions and alias GUIDs are taken over, unless the state has some of its own")
	fs.StringVar(&f.routes, "prefix-routes", "", "`FILE` of routers to other subnets, in the form of OpenSM's prefix-routes.conf: a subnet prefix and a router's port GUID a line, * for any; read again on SIGHUP")
	fs.StringVar(&f.saKey, "sa-key", "", "64-bit `KEY` that makes an SA request trusted, as its SM_Key; default: a random one, kept in the state directory and printed by 'heddle ctl sa-key'. Unless this is 0, which trusts nobody, 1 counts too, from the manager's own port alone")
	fs.Uint8Var(&f.pathCaching, "subnet-supports-sa-path-caching", 0, "`BITS` to put into the reserved field at bit offset 353 of PathRecord answers, which tells hosts that they may cache paths; without a value 1, 0 for none")
	fs.Lookup("subnet-supports-sa-path-caching").NoOptDefVal = "1"
	fs.Uint8Var(&f.virtHops, "virt-default-hop-limit", 2, "HopLimit `N` of paths to and from virtual ports that share their LID, by which hosts know that their packets must have a GRH: 2 to 255")
	fs.BoolVar(&f.virtRecords, "enable-virt-rec-ext", false, "answer queries for NodeRecords and PortInfoRecords with virtual ports that have LIDs of their own too")
	fs.IntVar(&f.queue, "sa-queue", 0, "`MOST` SA requests that wait, of all hosts; 0 = 8192; what is more is answered BUSY")
	fs.IntVar(&f.queueEach, "sa-queue-each", 0, "`MOST` of one LID; 0 = 1024")
	fs.BoolVar(&f.consolidate, "consolidate-ipv6-snm-req", false, "IPv6 solicited-node groups of one scope and P_Key share an MLID from the start, not only when MLIDs have run out")
	fs.BoolVar(&f.exclusive, "exclusive-mlids", false, "when MLIDs have run out refuse a new multicast group; default: it shares the MLID of groups with the same P_Key, MTU, rate and SL")
	fs.DurationVar(&f.dropAfter, "drop-event-subscriptions-after", 10*time.Minute, "`TIME` that a subscriber may be away from the subnet, or leave Reports unanswered, before its subscriptions are dropped; 0 = never (as OpenSM without drop_event_subscriptions)")
	fs.Uint8Var(&f.assigned, "sm-assigned-guid", 0, "`BYTE` behind the OUI 00:14:05 in alias GUIDs that the SA chooses; give each subnet another")
}

// check refuses values out of their range.
func (f *adminFlags) check() error {
	switch _, _, err := parseSAKey(f.saKey); {
	case err != nil:
		return err
	case f.virtHops < 2:
		return usagef("--virt-default-hop-limit %d: want 2 to 255", f.virtHops)
	case f.pathCaching > 7:
		return usagef("--subnet-supports-sa-path-caching %d: want 0 to 7", f.pathCaching)
	case f.queue < 0 || f.queue > 65535 || f.queueEach < 0:
		return usagef("--sa-queue: want 0 to 65535, --sa-queue-each must not be negative")
	case f.dropAfter < 0:
		return usagef("--drop-event-subscriptions-after must not be negative")
	}
	return nil
}

// openPartitions is a partitions.conf by which everybody may meet, as without one.
const openPartitions = `"Default=0x7fff, ipoib : ALL=full ;"`

// configure puts the settings into a daemon's configuration, which has its
// store already. state is the state directory, if there is one.
func (f *adminFlags) configure(cfg *daemon.Config, state string, log *slog.Logger) error {
	key, err := f.chooseSAKey(state, log)
	if err != nil {
		return err
	}
	cfg.Queue, cfg.QueuePerRequester = f.queue, f.queueEach
	cfg.Registry = sa.Defaults()
	cfg.Registry.ConsolidateSNM, cfg.Registry.ExclusiveMLIDs = f.consolidate, f.exclusive
	cfg.Registry.DropAfter, cfg.Registry.AssignedGUIDByte = f.dropAfter, f.assigned
	stored, err := cfg.Store.Load()
	if err != nil {
		return err
	}
	// A damaged policy is the manager's to tell of, and no reason to go on here.
	inForce, _ := sm.StoredPartitions(stored.Records)
	switch cfg.Partitions, err = f.readPartitions(log); {
	case err == nil:
	case errors.Is(err, partition.ErrNothing) && inForce == nil:
		// What a manager without --partitions does on its own, and what OpenSM does
		// with such a file.
		log.Warn(err.Error() + ": every port is a full member of the default partition; to say the same, write " + openPartitions)
	case errors.Is(err, partition.ErrNothing):
		log.Warn(err.Error() + ": the partitions that are stored stay in force; to open the subnet, write " + openPartitions)
	case inForce == nil:
		return fmt.Errorf("%w (for a subnet without partitions leave --partitions out, or write %s)", err, openPartitions)
	default:
		// A subnet without a manager helps nobody: the partitions that it has
		// stay in force.
		cfg.PartitionsErr = err
	}
	if cfg.SA, err = f.readOptions(cmp.Or(cfg.Partitions, inForce), log); err != nil {
		return err
	}
	cfg.SA.SAKey, cfg.SA.TrustLocal = key, key != 0
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

// readPartitions reads the file of partitions; nil if none was given. One that says
// nothing is partition.ErrNothing.
func (f *adminFlags) readPartitions(log *slog.Logger) (*partition.Policy, error) {
	if f.partitions == "" {
		return nil, nil
	}
	in, err := os.Open(f.partitions)
	if err != nil {
		return nil, fmt.Errorf("--partitions: %w", err)
	}
	defer in.Close()
	p, warnings, err := partition.Parse(in, f.partitions)
	if err != nil {
		return nil, fmt.Errorf("--partitions: %w", err)
	}
	for _, w := range warnings {
		log.Warn("partitions: " + w.String())
	}
	return p, nil
}

// readOptions reads the files that answers depend on. parts are the partitions
// that a QoS policy may name; nil: the default one.
func (f *adminFlags) readOptions(parts *partition.Policy, log *slog.Logger) (*sa.Options, error) {
	o := &sa.Options{PathCaching: f.pathCaching, VirtHopLimit: f.virtHops, VirtRecords: f.virtRecords}
	if f.routes != "" {
		in, err := os.Open(f.routes)
		if err != nil {
			return nil, fmt.Errorf("--prefix-routes: %w", err)
		}
		defer in.Close()
		if o.PrefixRoutes, err = sa.ParsePrefixRoutes(in, f.routes); err != nil {
			return nil, fmt.Errorf("--prefix-routes: %w", err)
		}
	}
	if f.qos != "" {
		in, err := os.Open(f.qos)
		if err != nil {
			return nil, fmt.Errorf("--qos-policy: %w", err)
		}
		defer in.Close()
		if parts == nil {
			parts = partition.Default()
		}
		policy, warnings, err := qos.Parse(in, f.qos, parts)
		if err != nil {
			return nil, fmt.Errorf("--qos-policy: %w", err)
		}
		for _, w := range warnings {
			log.Warn("QoS policy: " + w.String())
		}
		o.QoS = policy
	}
	return o, nil
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

// reload reads all files before any of them counts.
func (f *adminFlags) reload(ctx context.Context, d *daemon.Daemon, log *slog.Logger) error {
	p, err := f.readPartitions(log)
	if errors.Is(err, partition.ErrNothing) {
		log.Warn(err.Error() + ": the partitions that are in force stay so; to open the subnet, write " + openPartitions)
	} else if err != nil {
		return err
	}
	parts := p
	if s := d.Snapshot(); parts == nil && s != nil {
		parts = s.Partitions // in force
	}
	o, err := f.readOptions(parts, log)
	if err != nil {
		return err
	}
	if p != nil {
		if err := d.ApplyPartitions(ctx, p); err != nil {
			return err
		}
	}
	d.SetOptions(*o)
	var read []string
	if p != nil {
		read = append(read, f.partitions)
	}
	for _, file := range []string{f.qos, f.routes} {
		if file != "" {
			read = append(read, file)
		}
	}
	if len(read) > 0 {
		log.Info("SIGHUP: read again and in force", "files", strings.Join(read, ", "))
	}
	return nil
}
