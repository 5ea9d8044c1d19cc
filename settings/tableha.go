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
	Peer     string // HOST:PORT; empty: there is no pair
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
		Meaning: "the other manager of a pair, which has the same state and takes over: its --ha-listen; empty for none",
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
		Meaning: "address on which the other manager copies the state; default: all addresses, the port of --peer",
		value:   text{func(c *Config) *string { return &c.HA.Listen }},
	},
	{
		Name: "ha-dir", Group: Pair, Arg: "DIR", Since: v020, Commands: pairs,
		Meaning: "directory with " + HACertificate + ", " + HAKey + ", " + HAAuthority + " and " + HASecret + ", as 'heddle ctl ha certs' makes it",
		value:   text{func(c *Config) *string { return &c.HA.Dir }},
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
		Meaning: "file with a secret of the two managers, 16 bytes or more, that their owner alone can read: it makes their messages in the subnet genuine",
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

// Complete returns h with what follows from other settings.
func (h HA) Complete() HA {
	for _, f := range haFiles {
		if at := f.at(&h); *at == "" {
			*at = path.Join(h.Dir, f.name)
		}
	}
	host, port, _ := splitAddress(h.Peer)
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
	from := v.From("peer")
	if err := checkAddress(v.HA.Peer, true); err != nil {
		return fmt.Errorf("%s %q: %w", from, v.HA.Peer, err)
	}
	if l := v.HA.Listen; l != "" {
		if err := checkAddress(l, false); err != nil {
			return fmt.Errorf("%s %q: %w", v.From("ha-listen"), l, err)
		}
	}
	switch {
	case v.Files.State == "":
		return fmt.Errorf("%s requires --state: a pair keeps its state on two disks", from)
	case v.Once:
		return fmt.Errorf("%s and %s do not go together: a pair stays", from, v.From("once"))
	case v.HA.PeerGUID == 0:
		return fmt.Errorf("%s requires --peer-guid, the other manager's port GUID ('ibstat -p' there prints it)", from)
	}
	for _, f := range haFiles {
		if v.HA.Dir == "" && *f.at(&v.HA) == "" {
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
