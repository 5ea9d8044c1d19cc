package kerneltest

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sort"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"heddle/internal/abitest"
	"heddle/internal/umadabi"
	"heddle/transport/umad"
)

// guest is what the machine does: it is init.
func guest() {
	failed, err := guestRun()
	if err != nil {
		fmt.Println("FAIL machine:", err)
		failed++
	}
	fmt.Printf("\n%s%d failed\n", resultMark, failed)
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	for {
		_ = unix.Pause()
	}
}

func guestRun() (failed int, err error) {
	for _, m := range [][2]string{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}} {
		if err := unix.Mount(m[0], m[1], m[0], 0, ""); err != nil {
			return 0, fmt.Errorf("mount %s: %w", m[1], err)
		}
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		fmt.Printf("\nkernel %s\n", unix.ByteSliceToString(u.Release[:]))
	}
	mods, err := filepath.Glob("/modules/*.ko")
	if err != nil {
		return 0, err
	}
	sort.Strings(mods)
	for _, m := range mods {
		f, err := os.Open(m)
		if err != nil {
			return 0, err
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		f.Close()
		if err != nil && err != unix.EEXIST {
			return 0, fmt.Errorf("load %s: %w", m, err)
		}
	}
	if err := interfaceUp("dummy0", netip.MustParseAddr("192.0.2.1")); err != nil {
		return 0, err
	}
	if err := newLink("rxe0", "rxe", "dummy0"); err != nil {
		return 0, err
	}
	d, err := waitDevice(10 * time.Second)
	if err != nil {
		return 0, err
	}
	fmt.Printf("device %s, link layer %s, state %d, GID %s\n", d.Name(), d.LinkLayer, d.State, d.GIDs[0])
	failed = netlinkChecks(os.Stdout)
	e := &abitest.Env{
		Sys: umad.DefaultSys, Dev: umad.DefaultDev, A: d.Umad, B: d.Umad, Issm: d.Issm, CA: d.CA, Port: d.Port,
		To:     umadabi.Header{GRHPresent: true, GID: d.GIDs[0], HopLimit: 64},
		Remove: func() error { return deleteLink(0) },
	}
	return failed + abitest.Run(e, os.Stdout), nil
}

// waitDevice waits until the RDMA device is usable.
func waitDevice(limit time.Duration) (*umad.Device, error) {
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	end := time.Now().Add(limit)
	for {
		devs, err := umad.Discover("")
		if err != nil {
			return nil, err
		}
		if len(devs) == 1 && len(devs[0].GIDs) > 0 && devs[0].GIDs[0][0] == 0xfe && devs[0].State == 4 {
			return &devs[0], nil
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("no usable device after %v: %+v", limit, devs)
		}
		<-t.C
	}
}

// interfaceUp gives an interface an IPv4 address and sets it up.
func interfaceUp(name string, a netip.Addr) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	var req [40]byte // struct ifreq
	copy(req[:15], name)
	binary.NativeEndian.PutUint16(req[16:], unix.AF_INET)
	ip := a.As4()
	copy(req[20:], ip[:])
	if err := ioctl(s, unix.SIOCSIFADDR, &req); err != nil {
		return fmt.Errorf("address of %s: %w", name, err)
	}
	clear(req[16:])
	binary.NativeEndian.PutUint16(req[16:], unix.IFF_UP|unix.IFF_RUNNING)
	if err := ioctl(s, unix.SIOCSIFFLAGS, &req); err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	return nil
}

func ioctl(fd int, code uintptr, req *[40]byte) error {
	if _, _, no := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), code, uintptr(unsafe.Pointer(req))); no != 0 {
		return no
	}
	return nil
}

// The rdma-netlink commands that make and delete a software device.
const (
	nldevNewLink = 5<<10 | 3
	nldevDelLink = 5<<10 | 4

	attrDevIndex = 1
	attrDevName  = 2
	attrNdevName = 51
	attrLinkType = 65
)

func newLink(name, kind, netdev string) error {
	err := rdmaNetlink(nldevNewLink, attr(attrDevName, name+"\x00"), attr(attrLinkType, kind+"\x00"), attr(attrNdevName, netdev+"\x00"))
	if err != nil {
		return fmt.Errorf("make %s device %s on %s: %w", kind, name, netdev, err)
	}
	return nil
}

func deleteLink(index uint32) error {
	return rdmaNetlink(nldevDelLink, attr(attrDevIndex, string(binary.NativeEndian.AppendUint32(nil, index))))
}

func attr(typ uint16, value string) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	b = binary.NativeEndian.AppendUint16(b, typ)
	b = append(b, value...)
	return append(b, make([]byte, -len(b)&3)...)
}

func rdmaNetlink(typ uint16, attrs ...[]byte) error {
	const protoRDMA = 20
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, protoRDMA)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	b := make([]byte, 4)
	b = binary.NativeEndian.AppendUint16(b, typ)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	b = append(b, 1, 0, 0, 0, 0, 0, 0, 0) // sequence, port
	for _, a := range attrs {
		b = append(b, a...)
	}
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	if err := unix.Sendto(s, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	r := make([]byte, 4096)
	n, _, err := unix.Recvfrom(s, r, 0)
	if err != nil {
		return err
	}
	if n < 20 || binary.NativeEndian.Uint16(r[4:]) != unix.NLMSG_ERROR {
		return fmt.Errorf("rdma-netlink answered % x", r[:min(n, 36)])
	}
	if no := int32(binary.NativeEndian.Uint32(r[16:])); no != 0 {
		return unix.Errno(-no)
	}
	return nil
}
