package settings

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"heddle/ib"
)

// HA makes a manager one of a pair.
type HA struct {
	Peer     string // HOST:PORT; empty: there is no pair. With Etcd.Store HOST:PORT,…: see Peers
	PeerGUID ib.GUID
	PeerAPI  string
	Listen   string
	Dir      string

	Certificate, Key, Authority, Secret string // files
}

// Names of the files in the directory of --ha-dir.
const (
	HACertificate = "cert.pem"
	HAKey         = "key.pem"
	HAAuthority   = "ca.pem"
	HASecret      = "secret"
)

var pairs = []string{"sm"}

var haTable = []Setting{
	{
		Name: "peer", Group: Pair, Arg: "HOST:PORT", Since: v020, Commands: pairs,
		Meaning: "the other manager of a pair, which has the same state and takes over: its --ha-listen; empty for none. With --store, all other managers (HOST:PORT,HOST:PORT...): a standby then follows the master's snapshots, and detects the end of its process sooner",
		value:   text{func(c *Config) *string { return &c.HA.Peer }},
	},
	{
		Name: "peer-guid", Group: Pair, Arg: "GUID", Since: v020, Commands: pairs,
		Meaning: "port GUID of the other manager's port; 0: unknown",
		value:   key[ib.GUID]{func(c *Config) *ib.GUID { return &c.HA.PeerGUID }},
	},
	{
		Name: "peer-api", Group: Pair, Arg: "ADDR", Since: v020, Commands: pairs,
		Meaning: "the other manager's API, which a standby names in its errors; default: the host of --peer",
		value:   text{func(c *Config) *string { return &c.HA.PeerAPI }},
	},
	{
		Name: "ha-listen", Group: Pair, Arg: "[HOST]:PORT", Since: v020, Commands: pairs,
		Meaning: "address from which the other manager copies the state, or others follow the master's snapshots; default: all addresses, the port of --peer",
		value:   text{func(c *Config) *string { return &c.HA.Listen }},
	},
	{
		Name: "ha-dir", Group: Pair, Arg: "DIR", Since: v020, Commands: pairs,
		Meaning: "directory with " + HACertificate + ", " + HAKey + ", " + HAAuthority + " and " + HASecret + ", as 'heddle ctl ha certs' makes it",
		value:   text{func(c *Config) *string { return &c.HA.Dir }},
	},
	{
		Name: "sm-lid", Group: Pair, Arg: "KIND", Since: v020, Commands: pairs,
		Meaning: "LID of the master's port after a takeover: own, its own one, which hosts are notified of; or floating, that of the old master's port, so that no host has to be notified, for dedicated manager hosts; give both managers the same",
		value: choice[bool]{func(c *Config) *bool { return &c.SM.FloatLID }, []word[bool]{
			{"own", false}, {"floating", true},
		}},
	},
	{
		Name: "ha-cert", Group: Pair, Arg: "FILE", Since: v020, Commands: pairs,
		Meaning: "certificate of this manager (PEM), in place of that in --ha-dir",
		value:   text{func(c *Config) *string { return &c.HA.Certificate }},
	},
	{
		Name: "ha-key", Group: Pair, Arg: "FILE", Since: v020, Commands: pairs,
		Meaning: "key of that certificate",
		value:   text{func(c *Config) *string { return &c.HA.Key }},
	},
	{
		Name: "ha-ca", Group: Pair, Arg: "FILE", Since: v020, Commands: pairs,
		Meaning: "certificate of the authority of the other manager's certificate",
		value:   text{func(c *Config) *string { return &c.HA.Authority }},
	},
	{
		Name: "ha-secret", Group: Pair, Arg: "FILE", Since: v020, Commands: pairs,
		Meaning: "file with a secret of the two managers, 16 bytes or more, that only its owner can read: it authenticates their messages in the subnet",
		value:   text{func(c *Config) *string { return &c.HA.Secret }},
	},
}

// haFiles are the settings of files, with their names in --ha-dir.
var haFiles = []struct {
	setting, name string
	at            func(h *HA) *string
}{
	{"ha-cert", HACertificate, func(h *HA) *string { return &h.Certificate }},
	{"ha-key", HAKey, func(h *HA) *string { return &h.Key }},
	{"ha-ca", HAAuthority, func(h *HA) *string { return &h.Authority }},
	{"ha-secret", HASecret, func(h *HA) *string { return &h.Secret }},
}

// Peers are the addresses of the other managers: several only with Etcd.Store.
func (h *HA) Peers() []string { return strings.Split(h.Peer, ",") }

// Complete returns h with what follows from other settings.
func (h HA) Complete() HA {
	for _, f := range haFiles {
		if at := f.at(&h); *at == "" {
			*at = path.Join(h.Dir, f.name)
		}
	}
	host, port, _ := splitAddress(h.Peers()[0])
	if h.Listen == "" {
		h.Listen = ":" + port
	}
	if h.PeerAPI == "" {
		h.PeerAPI = host
	}
	return h
}

// checkPair refuses settings of a pair that do not go together.
func (v *Values) checkPair() error {
	if v.HA.Peer == "" {
		for _, s := range All(Pair) {
			if s.Name != "peer" && v.Given(s.Name) {
				return fmt.Errorf("%s requires --peer", v.From(s.Name))
			}
		}
		return nil
	}
	from, shared := v.From("peer"), v.Etcd.Store != ""
	for _, p := range v.HA.Peers() {
		if err := checkAddress(p, true); err != nil {
			return fmt.Errorf("%s %q: %w", from, p, err)
		}
	}
	if l := v.HA.Listen; l != "" {
		if err := checkAddress(l, false); err != nil {
			return fmt.Errorf("%s %q: %w", v.From("ha-listen"), l, err)
		}
	}
	switch {
	case shared && (v.Given("peer-guid") || v.Given("peer-api") || v.Given("ha-secret")):
		return fmt.Errorf("%s with --store has no --peer-guid, --peer-api or --ha-secret: these are of a pair", from)
	case shared:
	case len(v.HA.Peers()) > 1:
		return fmt.Errorf("%s: a pair has one other manager; three or more need --store", from)
	case v.Files.State == "":
		return fmt.Errorf("%s requires --state: a pair keeps its state on two disks", from)
	case v.Once:
		return fmt.Errorf("%s and %s do not go together: a pair stays", from, v.From("once"))
	case v.HA.PeerGUID == 0:
		return fmt.Errorf("%s requires --peer-guid, the other manager's port GUID ('ibstat -p' there prints it)", from)
	}
	for _, f := range haFiles {
		if v.HA.Dir == "" && *f.at(&v.HA) == "" && !(shared && f.setting == "ha-secret") {
			return fmt.Errorf("%s requires --ha-dir ('heddle ctl ha certs' makes one), or --%s", from, f.setting)
		}
	}
	return nil
}

// splitAddress splits HOST:PORT. An IPv6 address is in brackets, which host is without.
func splitAddress(addr string) (host, port string, ok bool) {
	i := strings.LastIndexByte(addr, ':')
	if i < 0 {
		return "", "", false
	}
	host, port = addr[:i], addr[i+1:]
	if h, six := strings.CutPrefix(host, "["); six {
		host, ok = strings.CutSuffix(h, "]")
		return host, port, ok
	}
	return host, port, !strings.ContainsAny(host, ":[]")
}

// checkAddress refuses what is not HOST:PORT, where the host may have to be there.
func checkAddress(addr string, host bool) error {
	h, p, ok := splitAddress(addr)
	n, err := strconv.ParseUint(p, 10, 16)
	switch {
	case !ok || err != nil || n == 0:
		return errors.New("want HOST:PORT, such as manager-2:7482")
	case host && h == "":
		return errors.New("the host is missing: want HOST:PORT, such as manager-2:7482")
	}
	return nil
}
