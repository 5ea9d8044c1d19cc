package live

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"heddle/ib"
)

// Target is what an address leads to.
type Target struct {
	GID  ib.GID
	PKey ib.PKey // of the IPoIB interface; 0: unknown
}

// LocalAddress is an IP address of an IPoIB interface of this host.
type LocalAddress struct {
	IP netip.Addr
	Target
}

// Addresses knows the GIDs of IP addresses: those in a file, those of this host's own IPoIB
// interfaces, and those that the kernel's neighbor table has for IPoIB interfaces, because
// this host spoke to them. It asks nobody.
type Addresses struct {
	ips   map[netip.Addr]ib.GID
	names map[string]ib.GID
	sys   string

	mu    sync.Mutex
	read  time.Time               // guarded by mu
	local []LocalAddress          // guarded by mu
	near  map[netip.Addr]Target   // guarded by mu
	links map[uint32]ipoibPartner // guarded by mu
}

type ipoibPartner struct{ pkey ib.PKey }

// tableTime is how old the kernel's tables may be. Reading them takes up to some
// milliseconds.
const tableTime = time.Second

// NewAddresses reads the file of addresses, if file is not nil: an IP address or a name, and a
// GID a line; # begins a comment. This is the form of ibacm's ibacm_hosts.data.
func NewAddresses(file io.Reader) (*Addresses, error) {
	a := &Addresses{ips: map[netip.Addr]ib.GID{}, names: map[string]ib.GID{}, sys: "/sys"}
	if file == nil {
		return a, nil
	}
	in := bufio.NewScanner(file)
	for n := 1; in.Scan(); n++ {
		line, _, _ := strings.Cut(in.Text(), "#")
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		var g ib.GID
		if len(f) != 2 || g.UnmarshalText([]byte(f[1])) != nil {
			return nil, fmt.Errorf("line %d: want an IP address or a name, and a GID", n)
		}
		if ip, err := netip.ParseAddr(f[0]); err == nil {
			a.ips[ip.Unmap()] = g
		} else {
			a.names[f[0]] = g
		}
	}
	return a, in.Err()
}

// IP finds the GID of an address.
func (a *Addresses) IP(ip netip.Addr) (t Target, ok bool) {
	ip = ip.Unmap()
	if g, ok := a.ips[ip]; ok {
		return Target{GID: g}, true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refresh()
	for _, l := range a.local {
		if l.IP == ip {
			return l.Target, true
		}
	}
	t, ok = a.near[ip]
	return t, ok
}

// Name finds the GID of a name, which only the file has.
func (a *Addresses) Name(name string) (t Target, ok bool) {
	g, ok := a.names[name]
	return Target{GID: g}, ok
}

// Local lists the IP addresses of this host's IPoIB interfaces.
func (a *Addresses) Local() []LocalAddress {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refresh()
	return a.local
}

// Route is the address from which this host would send to another; invalid if it has no route.
// Nothing is sent.
func (a *Addresses) Route(to netip.Addr) netip.Addr {
	c, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: to.AsSlice(), Port: 9})
	if err != nil {
		return netip.Addr{}
	}
	defer c.Close()
	from, _ := c.LocalAddr().(*net.UDPAddr)
	ip, _ := netip.AddrFromSlice(from.IP)
	return ip.Unmap()
}

// refresh reads the kernel's tables. It is called with mu held.
func (a *Addresses) refresh() {
	if time.Since(a.read) < tableTime {
		return
	}
	a.read = time.Now()
	a.local, a.near, a.links = nil, map[netip.Addr]Target{}, map[uint32]ipoibPartner{}
	ifs, err := net.Interfaces()
	if err != nil {
		return
	}
	for i := range ifs {
		n := &ifs[i]
		g, ok := ipoibGID(n.HardwareAddr)
		if !ok {
			continue
		}
		key := ib.PKey(0)
		if b, err := os.ReadFile(filepath.Join(a.sys, "class/net", n.Name, "pkey")); err == nil {
			v, _ := strconv.ParseUint(strings.TrimSpace(string(b)), 0, 16)
			key = ib.PKey(v)
		}
		a.links[uint32(n.Index)] = ipoibPartner{key}
		addrs, _ := n.Addrs()
		for _, x := range addrs {
			if p, err := netip.ParsePrefix(x.String()); err == nil {
				a.local = append(a.local, LocalAddress{p.Addr().WithZone("").Unmap(), Target{g, key}})
			}
		}
	}
	if len(a.links) == 0 {
		return // no IPoIB, no neighbors
	}
	rib, err := syscall.NetlinkRIB(syscall.RTM_GETNEIGH, syscall.AF_UNSPEC)
	if err != nil {
		return
	}
	msgs, err := syscall.ParseNetlinkMessage(rib)
	if err != nil {
		return
	}
	for _, m := range msgs {
		index, ip, hw, ok := neighbor(m.Data)
		link, known := a.links[index]
		g, isIB := ipoibGID(hw)
		if ok && known && isIB && m.Header.Type == syscall.RTM_NEWNEIGH {
			a.near[ip] = Target{g, link.pkey}
		}
	}
}

// ipoibGID is the GID in the 20-byte address of an IPoIB interface: flags, QPN, GID (RFC 4391).
func ipoibGID(hw []byte) (g ib.GID, ok bool) {
	if len(hw) != 20 {
		return g, false
	}
	g = ib.GID(hw[4:20])
	return g, !g.IsZero()
}

// Parts of a message about a neighbor (include/uapi/linux/neighbour.h).
const (
	ndLen    = 12 // struct ndmsg
	ndaDst   = 1
	ndaHW    = 2
	nudUsual = 0x02 | 0x04 | 0x08 | 0x10 | 0x80 // reachable, stale, delay, probe, permanent
)

// neighbor reads a message about a neighbor whose address is known.
func neighbor(b []byte) (index uint32, ip netip.Addr, hw []byte, ok bool) {
	if len(b) < ndLen || binary.NativeEndian.Uint16(b[8:])&nudUsual == 0 {
		return 0, ip, nil, false
	}
	index = binary.NativeEndian.Uint32(b[4:])
	for b = b[ndLen:]; len(b) >= 4; {
		n := int(binary.NativeEndian.Uint16(b))
		if n < 4 || n > len(b) {
			break
		}
		switch binary.NativeEndian.Uint16(b[2:]) {
		case ndaDst:
			ip, _ = netip.AddrFromSlice(b[4:n])
		case ndaHW:
			hw = b[4:n]
		}
		b = b[min((n+3)&^3, len(b)):]
	}
	return index, ip.Unmap(), hw, ip.IsValid()
}
