package live

import (
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// firstFD is the first descriptor that systemd passes (sd_listen_fds(3)).
const firstFD = 3

// Activated takes the sockets that systemd opened for this process: stream sockets for
// ibacm's protocol, and a netlink socket for the kernel's questions. The variables are removed,
// so that no child takes the sockets too.
func Activated() (streams []net.Listener, nl *Netlink, err error) {
	pid, n := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS")
	for _, v := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		os.Unsetenv(v)
	}
	count, _ := strconv.Atoi(n)
	if pid != strconv.Itoa(os.Getpid()) {
		return nil, nil, nil
	}
	for fd := firstFD; fd < firstFD+count; fd++ {
		unix.CloseOnExec(fd)
		domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
		if err != nil {
			return streams, nl, fmt.Errorf("descriptor %d of systemd is no socket: %w", fd, err)
		}
		if domain == unix.AF_NETLINK {
			nl = NewNetlink(fd)
			continue
		}
		f := os.NewFile(uintptr(fd), "systemd")
		l, err := net.FileListener(f)
		f.Close()
		if err != nil {
			return streams, nl, fmt.Errorf("descriptor %d of systemd: %w", fd, err)
		}
		streams = append(streams, l)
	}
	return streams, nl, nil
}
