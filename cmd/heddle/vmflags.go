package main

import (
	"strings"

	"github.com/spf13/pflag"

	"heddle/daemon"
	"heddle/ib"
	"heddle/sm"
	"heddle/vm"
)

// vmFlags are the settings of virtual ports, of the address manager, and of the
// UFM calls.
type vmFlags struct {
	virtualization string
	vswitchLIDs    string
	guidPool       string

	ufm, ufmUser, ufmPassword, ufmCert, ufmKey string
}

func (f *vmFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.virtualization, "virtualization", "on", "`WHAT` to do with ports that have virtual ports: on (turn it on, bring them up), off (turn it off) or ignore (2, 1 and 0 of NVIDIA's virt_enabled)")
	fs.StringVar(&f.vswitchLIDs, "vswitch-lids", "dynamic", "`WHEN` functions of vSwitch adapters get LIDs: dynamic (while an interface is there) or prepopulated (all, from the start, routed with the rest)")
	fs.StringVar(&f.guidPool, "vm-guid-pool", "", "`FIRST-LAST` of the port GUIDs for interfaces of VMs that bring none; default 0x0200000000000001-0x02000000ffffffff")
	fs.StringVar(&f.ufm, "ufm-listen", "", "`ADDR` (HOST:PORT) of the calls that UFM clients make, such as the ufm plugin of ib-kubernetes; default: none")
	fs.StringVar(&f.ufmUser, "ufm-user", "admin", "`USER` of the UFM calls (HTTP Basic)")
	fs.StringVar(&f.ufmPassword, "ufm-password-file", "", "`FILE` with the password of the UFM calls")
	fs.StringVar(&f.ufmCert, "ufm-tls-cert", "", "certificate `FILE` of the UFM calls, needed for an address that is not loopback")
	fs.StringVar(&f.ufmKey, "ufm-tls-key", "", "its key `FILE`")
}

// core puts the settings into the configuration of the manager's core.
func (f *vmFlags) core(c *sm.Config) error {
	modes := map[string]sm.VirtualMode{"on": sm.VirtualOn, "off": sm.VirtualOff, "ignore": sm.VirtualIgnore}
	mode, ok := modes[f.virtualization]
	if !ok {
		return usagef("--virtualization %q: want on, off or ignore", f.virtualization)
	}
	c.Virtualization = mode
	switch f.vswitchLIDs {
	case "dynamic":
	case "prepopulated":
		c.VSwitchPrepopulate = true
	default:
		return usagef("--vswitch-lids %q: want dynamic or prepopulated", f.vswitchLIDs)
	}
	if _, err := f.pool(); err != nil {
		return err
	}
	if f.ufm == "" && (f.ufmPassword != "" || f.ufmCert != "" || f.ufmKey != "") {
		return usagef("--ufm-password-file, --ufm-tls-cert and --ufm-tls-key go with --ufm-listen, which is missing")
	}
	if f.ufm != "" && (f.ufmPassword == "" || f.ufmUser == "" || strings.Contains(f.ufmUser, ":")) {
		return usagef("--ufm-listen: the calls need a user, without a colon (--ufm-user), and a password (--ufm-password-file)")
	}
	return nil
}

// pool reads --vm-guid-pool.
func (f *vmFlags) pool() (c vm.Config, err error) {
	if f.guidPool == "" {
		return c, nil
	}
	first, last, ok := strings.Cut(f.guidPool, "-")
	if ok {
		if c.GUIDFirst, err = ib.ParseGUID(first); err == nil {
			c.GUIDLast, err = ib.ParseGUID(last)
		}
	}
	if !ok || err != nil || c.GUIDFirst == 0 || c.GUIDFirst > c.GUIDLast {
		return c, usagef("--vm-guid-pool %q: want FIRST-LAST, two GUIDs such as 0x0200000000000001-0x02000000ffffffff", f.guidPool)
	}
	return c, nil
}

// configure puts the settings into a daemon's configuration.
func (f *vmFlags) configure(cfg *daemon.Config) (err error) {
	cfg.VM, err = f.pool()
	return err
}
