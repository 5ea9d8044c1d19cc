package umad

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"heddle/ib"
)

// DefaultSys and DefaultDev are where Linux shows the devices.
const (
	DefaultSys = "/sys"
	DefaultDev = "/dev/infiniband"
)

// Device is one port with a umad device, as described by sysfs at discovery.
type Device struct {
	CA        string // RDMA device, "mlx5_0"
	Port      int    // port number; 0 on a switch
	Umad      string // "umad0"
	Issm      string // "issm0", empty if the port has none
	NodeType  ib.NodeType
	NodeGUID  ib.GUID
	PortGUID  ib.GUID
	NodeDesc  string
	LinkLayer string // "InfiniBand" or "Ethernet"
	LID       ib.LID
	LMC       uint8
	SMLID     ib.LID
	SMSL      ib.SL
	State     ib.PortState
	PhysState ib.PhysState
	CapMask   uint32
	Rate      string // "100 Gb/sec (4X EDR)"
	GIDs      []ib.GID
	PKeys     []ib.PKey // by index, 0 = empty
}

// Name is how the device is named in messages.
func (d *Device) Name() string { return fmt.Sprintf("%s/%d (%s)", d.CA, d.Port, d.Umad) }

// IsInfiniBand reports whether the link below is InfiniBand, so that the port
// has a QP0 at all.
func (d *Device) IsInfiniBand() bool { return d.LinkLayer == "" || d.LinkLayer == "InfiniBand" }

// Discover lists the ports that have a umad device, by RDMA device and port.
// sys is the mount point of sysfs; empty is DefaultSys. A machine without such
// ports gives an empty list; a port that vanishes during the scan is omitted.
func Discover(sys string) ([]Device, error) {
	if sys == "" {
		sys = DefaultSys
	}
	madClass := filepath.Join(sys, "class", "infiniband_mad")
	entries, err := os.ReadDir(madClass)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		return nil, wrap("discover ports in "+madClass, "", err)
	}
	type key struct {
		ca   string
		port int
	}
	issm := map[key]string{}
	var out []Device
	for _, e := range entries {
		name := e.Name()
		dir := filepath.Join(madClass, name)
		k := key{ca: readText(dir, "ibdev")}
		var err error
		if k.port, err = strconv.Atoi(readText(dir, "port")); err != nil || k.ca == "" {
			continue // abi_version, or a device that vanished
		}
		switch {
		case strings.HasPrefix(name, "umad"):
			out = append(out, Device{CA: k.ca, Port: k.port, Umad: name})
		case strings.HasPrefix(name, "issm"):
			issm[k] = name
		}
	}
	out = slices.DeleteFunc(out, func(d Device) bool { return readText(sys, "class/infiniband", d.CA, "node_guid") == "" })
	for i := range out {
		out[i].Issm = issm[key{out[i].CA, out[i].Port}]
		out[i].read(sys)
	}
	slices.SortFunc(out, func(a, b Device) int {
		if c := strings.Compare(a.CA, b.CA); c != 0 {
			return c
		}
		return a.Port - b.Port
	})
	return out, nil
}

// read reads the port's current state from sysfs.
func (d *Device) read(sys string) {
	ca := filepath.Join(sys, "class", "infiniband", d.CA)
	port := filepath.Join(ca, "ports", strconv.Itoa(d.Port))
	d.NodeType = ib.NodeType(readNum(ca, "node_type"))
	d.NodeGUID = ib.GUID(readGroups(ca, "node_guid"))
	d.NodeDesc = readText(ca, "node_desc")
	d.LinkLayer = readText(port, "link_layer")
	d.readAddress(sys)
	d.PhysState = ib.PhysState(readNum(port, "phys_state"))
	d.CapMask, d.Rate = uint32(readNum(port, "cap_mask")), readText(port, "rate")
	d.GIDs, d.PKeys = nil, nil
	for i := range 256 {
		g, ok := parseGID(readText(port, "gids", strconv.Itoa(i)))
		if !ok {
			break
		}
		d.GIDs = append(d.GIDs, g)
	}
	for len(d.GIDs) > 1 && d.GIDs[len(d.GIDs)-1] == (ib.GID{}) {
		d.GIDs = d.GIDs[:len(d.GIDs)-1]
	}
	if len(d.GIDs) > 0 {
		d.PortGUID = d.GIDs[0].GUID()
	}
	for i := range 1 << 16 {
		s := readText(port, "pkeys", strconv.Itoa(i))
		if s == "" {
			break
		}
		d.PKeys = append(d.PKeys, ib.PKey(parseNum(s)))
	}
}

// readAddress reads what another subnet manager may change at any time.
func (d *Device) readAddress(sys string) {
	port := filepath.Join(sys, "class", "infiniband", d.CA, "ports", strconv.Itoa(d.Port))
	d.LID, d.LMC = ib.LID(readNum(port, "lid")), uint8(readNum(port, "lid_mask_count"))
	d.SMLID, d.SMSL = ib.LID(readNum(port, "sm_lid")), ib.SL(readNum(port, "sm_sl"))
	d.State = ib.PortState(readNum(port, "state"))
}

// DefaultPKeyIndex is the index of the default partition, which management
// traffic uses; 0 if the table does not hold it.
func (d *Device) DefaultPKeyIndex() uint16 {
	for _, want := range []ib.PKey{ib.PKeyDefaultFull, ib.PKeyDefaultLimited} {
		if i := slices.Index(d.PKeys, want); i >= 0 {
			return uint16(i)
		}
	}
	return 0
}

// find returns the device with a name: "mlx5_0/1", "mlx5_0:1" (as udev and systemd write it),
// "mlx5_0" (its first port), "umad0", a port GUID ("0x…"), or "" for the first InfiniBand port
// whose link is up, otherwise the first port.
func find(devs []Device, name string) (*Device, error) {
	if name == "" {
		best := -1
		for i := range devs {
			d := &devs[i]
			if !d.IsInfiniBand() {
				continue
			}
			if d.PhysState == ib.PhysLinkUp {
				return d, nil
			}
			if best < 0 {
				best = i
			}
		}
		if best >= 0 {
			return &devs[best], nil
		}
		return nil, &Error{Op: "find an InfiniBand port", Kind: ErrNoDevice, Hint: listHint(devs)}
	}
	ca, portText, hasPort := strings.Cut(strings.Replace(name, ":", "/", 1), "/")
	port, err := strconv.Atoi(portText)
	if hasPort && err != nil {
		return nil, &Error{Op: "find port " + strconv.Quote(name), Kind: ErrNoDevice, Hint: "the port's number must follow the slash or the colon"}
	}
	guid, guidErr := strconv.ParseUint(strings.TrimPrefix(name, "0x"), 16, 64)
	for i := range devs {
		d := &devs[i]
		switch {
		case d.Umad == name,
			d.CA == ca && (!hasPort || d.Port == port),
			guidErr == nil && strings.HasPrefix(name, "0x") && uint64(d.PortGUID) == guid:
			return d, nil
		}
	}
	return nil, &Error{Op: "find port " + strconv.Quote(name), Kind: ErrNoDevice, Hint: listHint(devs)}
}

func listHint(devs []Device) string {
	if len(devs) == 0 {
		return "this machine has no umad devices (no RDMA adapter, or the ib_umad module is not loaded)"
	}
	var names []string
	for i := range devs {
		d := &devs[i]
		s := fmt.Sprintf("%s/%d", d.CA, d.Port)
		if !d.IsInfiniBand() {
			s += " (" + d.LinkLayer + ")"
		}
		names = append(names, s)
	}
	return "there are " + strings.Join(names, ", ")
}

func readText(elem ...string) string {
	b, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// readNum reads "0x11", "17" or "4: ACTIVE".
func readNum(elem ...string) uint64 { return parseNum(readText(elem...)) }

func parseNum(s string) uint64 {
	s, _, _ = strings.Cut(s, ":")
	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		return 0
	}
	return v
}

// readGroups reads a GUID in groups of four digits.
func readGroups(elem ...string) uint64 {
	v, err := strconv.ParseUint(strings.ReplaceAll(readText(elem...), ":", ""), 16, 64)
	if err != nil {
		return 0
	}
	return v
}

func parseGID(s string) (g ib.GID, ok bool) {
	s = strings.ReplaceAll(s, ":", "")
	if len(s) != 32 {
		return g, false
	}
	for i := range g {
		v, err := strconv.ParseUint(s[2*i:2*i+2], 16, 8)
		if err != nil {
			return g, false
		}
		g[i] = byte(v)
	}
	return g, true
}
