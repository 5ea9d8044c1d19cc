package umadfs

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// report is the second stage's error for the first stage.
type report struct {
	Op    string        `json:"op"`
	Text  string        `json:"text"`
	Errno syscall.Errno `json:"errno"`
	Hint  string        `json:"hint"`
}

func decodeReport(b []byte, userNS bool) error {
	var r report
	if err := json.Unmarshal(b, &r); err != nil {
		return fmt.Errorf("umadfs: attach: %s", b)
	}
	if r.Errno == 0 {
		return fmt.Errorf("umadfs: attach: %s: %s", r.Op, r.Text)
	}
	if r.Hint == "" {
		return fmt.Errorf("umadfs: attach: %s: %w", r.Op, r.Errno)
	}
	return &CannotError{Op: r.Op, Hint: r.Hint, Err: r.Errno}
}

// failure is an error of the second stage.
type failure struct {
	op, hint string
	err      error
}

func (f *failure) Error() string { return f.op + ": " + f.err.Error() }

func fail(op string, err error, hint string) error {
	if err == nil {
		return nil
	}
	return &failure{op: op, hint: hint, err: err}
}

// Stage must be the first call in main of a program that attaches commands (and
// in TestMain of a test that does). In an ordinary process it returns
// immediately; in the second stage of an attach, which is a copy of the
// program, it makes the mounts and becomes the command.
func Stage() {
	text, ok := os.LookupEnv(stageEnv)
	if !ok {
		return
	}
	os.Unsetenv(stageEnv)
	unix.CloseOnExec(stageSocket)
	unix.CloseOnExec(stageReport)
	err := becomeCommand(text)
	r := report{Op: "start", Text: err.Error()}
	var f *failure
	if errors.As(err, &f) {
		r.Op, r.Text, r.Hint = f.op, f.err.Error(), f.hint
	}
	var no syscall.Errno
	if errors.As(err, &no) {
		r.Errno = no
	}
	b, _ := json.Marshal(r)
	_, _ = unix.Write(stageReport, b)
	os.Exit(1)
}

// becomeCommand returns only if it fails.
func becomeCommand(text string) error {
	var st stage
	if err := json.Unmarshal([]byte(text), &st); err != nil || len(st.Argv) == 0 {
		return fail("read the plan", errors.New("not a second stage"), "")
	}
	path, err := exec.LookPath(st.Argv[0])
	if err != nil {
		return fail("find the command", err, "")
	}
	if path, err = filepath.Abs(path); err != nil {
		return fail("find the command", err, "")
	}
	f := os.NewFile(stageSocket, "socket")
	nc, err := net.FileConn(f)
	if err != nil {
		return fail("use the simulator's socket", err, "")
	}
	sock, ok := nc.(*net.UnixConn)
	if !ok {
		return fail("use the simulator's socket", errors.New("not a unix socket"), "")
	}
	if err := mountDevices(&st, sock); err != nil {
		return err
	}
	// The death signal belongs to a thread, not to the process, and the thread
	// that calls exec remains: request it again on this thread, then check that
	// the parent still lives.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fail("tie the command's life to heddle's", err, "")
	}
	if os.Getppid() != st.Parent {
		return fail("tie the command's life to heddle's", errors.New("heddle has ended"), "")
	}
	// The address space that the kernel shows of us is the command's from
	// here on; descriptors 3 and 4 close.
	return fail("run "+st.Argv[0], syscall.Exec(path, st.Argv, os.Environ()), "")
}

const fuseHint = "virtual devices need FUSE (modprobe fuse; in a container: --device /dev/fuse)"

const mountHint = "mounting needs CAP_SYS_ADMIN and a security profile that allows mount (in a container: --cap-add SYS_ADMIN --security-opt apparmor=unconfined)"

// devNodes are the devices kept when /dev has to be replaced because it has no
// infiniband directory to mount on.
var devNodes = []string{"null", "zero", "full", "random", "urandom", "tty", "log"}

// mountDevices mounts the devices in this mount namespace: the class
// directories over /sys/class and the device files over /dev/infiniband, or,
// where there is no such directory, a private /dev. Nothing must be undone: the
// mounts vanish with the last process of the namespace.
func mountDevices(st *stage, sock *net.UnixConn) error {
	fuse, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fail("open /dev/fuse", err, fuseHint)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fail("make the mounts private", err, mountHint)
	}
	const scratch = "/tmp"
	if err := unix.Mount("heddle", scratch, "tmpfs", 0, "mode=0755,size=1m"); err != nil {
		return fail("mount a scratch directory", err, mountHint)
	}
	fs := scratch + "/fuse"
	for _, d := range []string{fs, scratch + "/dev", scratch + "/dev/infiniband", scratch + "/dev/shm", scratch + "/dev/pts"} {
		if err := unix.Mkdir(d, 0o755); err != nil {
			return fail("make "+d, err, "")
		}
	}
	opts := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fuse)
	if err := unix.Mount("heddle", fs, "fuse.heddle", unix.MS_NOSUID|unix.MS_NODEV, opts); err != nil {
		return fail("mount the device file system", err, mountHint)
	}
	// No path below fs may be touched before the simulator serves it.
	h := hello{Nodes: st.Nodes, PIDNS: pidNamespace("self")}
	if err := sendHello(sock, h, fuse); err != nil {
		return fail("hand the devices to the simulator", err, "")
	}
	a, err := recvAnswer(sock)
	if err != nil {
		return fail("ask the simulator for devices", err, "")
	}
	if a.Error != "" {
		return fail("ask the simulator for devices", errors.New(a.Error), "")
	}
	if err := unix.Mount(fs+"/class", "/sys/class", "", unix.MS_BIND, ""); err != nil {
		return fail("mount over /sys/class", err, mountHint)
	}
	if err := mountDev(scratch, fs); err != nil {
		return err
	}
	if err := unix.Unmount(scratch, unix.MNT_DETACH); err != nil {
		return fail("unmount the scratch directory", err, "")
	}
	return nil
}

func mountDev(scratch, fs string) error {
	if s, err := os.Stat("/dev/infiniband"); err == nil && s.IsDir() {
		return fail("mount over /dev/infiniband", unix.Mount(fs+"/infiniband", "/dev/infiniband", "", unix.MS_BIND, ""), mountHint)
	}
	dev := scratch + "/dev"
	for _, name := range devNodes {
		if _, err := os.Stat("/dev/" + name); err != nil {
			continue
		}
		f, err := os.OpenFile(dev+"/"+name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return fail("make a /dev", err, "")
		}
		f.Close()
		if err := unix.Mount("/dev/"+name, dev+"/"+name, "", unix.MS_BIND, ""); err != nil {
			return fail("bind /dev/"+name, err, mountHint)
		}
	}
	for _, dir := range []string{"shm", "pts"} {
		if _, err := os.Stat("/dev/" + dir); err == nil {
			if err := unix.Mount("/dev/"+dir, dev+"/"+dir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
				return fail("bind /dev/"+dir, err, mountHint)
			}
		}
	}
	for _, l := range [][2]string{{"/proc/self/fd", "fd"}, {"/proc/self/fd/0", "stdin"}, {"/proc/self/fd/1", "stdout"}, {"/proc/self/fd/2", "stderr"}, {"pts/ptmx", "ptmx"}} {
		if err := os.Symlink(l[0], dev+"/"+l[1]); err != nil {
			return fail("make a /dev", err, "")
		}
	}
	if err := unix.Mount(fs+"/infiniband", dev+"/infiniband", "", unix.MS_BIND, ""); err != nil {
		return fail("mount over /dev/infiniband", err, mountHint)
	}
	return fail("mount over /dev", unix.Mount(dev, "/dev", "", unix.MS_BIND|unix.MS_REC, ""), mountHint)
}

// pidNamespace names the PID namespace of a process; "": unknown.
func pidNamespace(pid string) string {
	s, err := os.Readlink("/proc/" + pid + "/ns/pid")
	if err != nil {
		return ""
	}
	return s
}
