package faultdisk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"heddle/internal/need"
	"heddle/internal/proc"
)

// childEnv tells a copy of the test binary what to mount and run.
const childEnv = "HEDDLE_FAULTDISK"

// Files of the child.
const (
	childSocket = 3 // the FUSE descriptor goes out, one byte comes in
	childReport = 4 // why it could not mount; closed then
)

// plan is for the child.
type plan struct {
	Dir  string
	Name string
	Args []string
}

// Main runs the tests of a package whose tests call Run, or in a copy of the test binary the
// program that Run names. Call it in TestMain.
func Main(m *testing.M, programs map[string]func(args []string) int) {
	Stage(programs)
	os.Exit(m.Run())
}

// Stage is Main for a TestMain that has more to do: in a copy of the test binary it does not return.
func Stage(programs map[string]func(args []string) int) {
	text, ok := os.LookupEnv(childEnv)
	if !ok {
		return
	}
	os.Unsetenv(childEnv)
	unix.CloseOnExec(childSocket)
	unix.CloseOnExec(childReport)
	var p plan
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		err = mount(p.Dir)
	}
	if err != nil {
		_, _ = unix.Write(childReport, []byte(err.Error()))
		os.Exit(2)
	}
	unix.Close(childReport)
	if run := programs[p.Name]; run != nil {
		os.Exit(run(p.Args))
	}
	fmt.Fprintln(os.Stderr, syscall.Exec(p.Name, append([]string{p.Name}, p.Args...), os.Environ()))
	os.Exit(2)
}

// mount mounts the disk in this process' own namespace.
func mount(dir string) error {
	fuse, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /dev/fuse: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	opts := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fuse)
	if err := unix.Mount("faultdisk", dir, "fuse.faultdisk", unix.MS_NOSUID|unix.MS_NODEV, opts); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	if err := unix.Sendmsg(childSocket, []byte{1}, unix.UnixRights(fuse), nil, 0); err != nil {
		return fmt.Errorf("hand over the mount: %w", err)
	}
	if n, err := unix.Read(childSocket, make([]byte, 1)); err != nil || n != 1 {
		return fmt.Errorf("wait for the disk: %w", err)
	}
	return unix.Close(fuse) // the disk's end of the power is then the only one
}

// Process is a program that has the disk, at Dir.
type Process struct {
	Dir string
	// In goes to the program's standard input, and Out is its standard output.
	In  io.WriteCloser
	Out io.Reader

	cmd    *exec.Cmd
	fd     int
	errors bytes.Buffer
	once   sync.Once
	served chan error
	err    error
}

// Run mounts d for a program and runs it: one of Main's, by name, or a file, by path. In arguments
// "DIR" at the beginning becomes the directory of the mount. The test is skipped where this machine cannot mount.
func Run(t testing.TB, d *Disk, name string, args ...string) *Process {
	t.Helper()
	need.FUSE(t)
	p, err := start(t, d, name, args, os.Geteuid() != 0)
	if errors.Is(err, errCannot) && os.Geteuid() == 0 {
		p, err = start(t, d, name, args, true) // root without the right to mount: in a container, perhaps
	}
	if errors.Is(err, errCannot) {
		need.Missing(t, "fuse", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

var errCannot = errors.New("faultdisk: no mount")

func start(t testing.TB, d *Disk, name string, args []string, userNS bool) (*Process, error) {
	p := &Process{Dir: t.TempDir(), served: make(chan error, 1)}
	args = slices.Clone(args)
	for i := range args {
		if rest, ok := strings.CutPrefix(args[i], "DIR"); ok {
			args[i] = p.Dir + rest
		}
	}
	text, err := json.Marshal(plan{p.Dir, name, args})
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	theirs := os.NewFile(uintptr(pair[1]), "socket")
	defer theirs.Close()
	defer unix.Close(pair[0])
	reportR, reportW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer reportR.Close()
	defer reportW.Close()
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p.cmd = exec.Command(exe)
	p.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	p.cmd.ExtraFiles = []*os.File{theirs, reportW}
	p.cmd.Stderr = &p.errors
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if userNS {
		p.cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		p.cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		p.cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	if p.In, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.Out, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := proc.Launch(p.cmd); err != nil {
		return nil, fmt.Errorf("%w: %w", errCannot, err)
	}
	reportW.Close()
	theirs.Close()
	fd, err := receive(pair[0])
	if err != nil {
		why, _ := io.ReadAll(reportR)
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		return nil, fmt.Errorf("%w: %s (%w)", errCannot, why, err)
	}
	p.fd = fd
	go func() { p.served <- (&conn{disk: d, fd: fd}).serve() }()
	_, err = unix.Write(pair[0], []byte{1})
	return p, err
}

// receive takes the FUSE descriptor.
func receive(sock int) (int, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := unix.Recvmsg(sock, make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n != 1 {
		return 0, fmt.Errorf("no mount came: %w", errors.Join(err, io.ErrUnexpectedEOF))
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(msgs) != 1 {
		return 0, fmt.Errorf("control message: %v", err)
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 1 {
		return 0, fmt.Errorf("descriptors: %v", err)
	}
	return fds[0], nil
}

// Kill ends the program by SIGKILL, as the end of the power does: it makes no further request.
func (p *Process) Kill() {
	p.end(func() { _ = p.cmd.Process.Kill() })
}

// Wait waits for the program's end. It returns its standard error in the error if it failed.
func (p *Process) Wait() error {
	p.end(func() {})
	return p.err
}

func (p *Process) end(how func()) {
	p.once.Do(func() {
		how()
		p.In.Close()
		if err := p.cmd.Wait(); err != nil {
			p.err = fmt.Errorf("%w: %s", err, p.errors.String())
		}
		if err := <-p.served; err != nil { // the mount ended with its namespace
			p.err = errors.Join(p.err, err)
		}
		unix.Close(p.fd)
	})
}

// Stop makes the program wait at its next request without end, and then kills it. Call it in a
// Hook: nothing that follows reaches the disk.
func (p *Process) Stop() { _ = p.cmd.Process.Kill() }
