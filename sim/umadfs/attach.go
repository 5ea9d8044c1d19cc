package umadfs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stageEnv marks the second stage of an attach: the process that makes the
// mounts in its new namespace and then becomes the command.
const stageEnv = "HEDDLE_ATTACH_STAGE"

// Files of the second stage.
const (
	stageSocket = 3 // to the simulator
	stageReport = 4 // why it failed; closed by a successful exec
)

// graceful is how long a command has between SIGTERM and SIGKILL.
const graceful = 2 * time.Second

// Stdio is what the command gets as its standard files; nil is /dev/null.
type Stdio struct {
	In       io.Reader
	Out, Err io.Writer
}

// Command describes one attached command.
type Command struct {
	// Nodes are the nodes whose HCAs the command sees, as umad devices in this
	// order; a name is a netlist id or a description, "" the first node.
	Nodes []string
	// Socket is the simulator's name.
	Socket string
	// Argv is the command with its arguments.
	Argv []string
	Stdio
	// Env is the command's environment; nil is this process'.
	Env []string
	// Started, if set, is called with the command's process id once its
	// devices are there and it runs.
	Started func(pid int)
}

// stage is what the first stage tells the second.
type stage struct {
	Nodes  []string `json:"nodes"`
	Argv   []string `json:"argv"`
	Socket string   `json:"socket"`
	UserNS bool     `json:"userns"`
	Parent int      `json:"parent"` // the process whose end ends the command
}

// Attach runs argv with node's simulated HCA as its umad devices and returns
// its exit status: 128 + N if signal N ended it. SIGTERM and the like are
// passed on to it; when ctx is done, or the simulator ends, it is ended. An
// error means that the command did not run, or lost its devices.
//
// The program must call Stage first thing in main.
func Attach(ctx context.Context, node, socket string, argv []string, std Stdio) (int, error) {
	return (&Command{Nodes: []string{node}, Socket: socket, Argv: argv, Stdio: std}).Run(ctx)
}

// Run runs the command; see Attach.
func (c *Command) Run(ctx context.Context) (int, error) {
	if len(c.Argv) == 0 {
		return 0, errors.New("umadfs: attach: no command given")
	}
	userNS := os.Geteuid() != 0
	code, err := c.run(ctx, userNS)
	if !userNS && errors.Is(err, syscall.EPERM) {
		// Root without the right to mount: in a container, perhaps.
		if code2, err2 := c.run(ctx, true); err2 == nil {
			return code2, nil
		}
	}
	return code, err
}

func (c *Command) run(ctx context.Context, userNS bool) (int, error) {
	sock, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: SocketName(c.Socket), Net: "unix"})
	if err != nil {
		return 0, fmt.Errorf("umadfs: attach: no simulator serves devices as %q (is `heddle sim --socket %s` running?): %w",
			c.Socket, c.Socket, err)
	}
	defer sock.Close()
	sockFile, err := sock.File()
	if err != nil {
		return 0, fmt.Errorf("umadfs: attach: %w", err)
	}
	defer sockFile.Close()
	reportR, reportW, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("umadfs: attach: %w", err)
	}
	defer reportR.Close()
	cmd, err := c.stage(userNS, sockFile, reportW)
	if err != nil {
		reportW.Close()
		return 0, fmt.Errorf("umadfs: attach: %w", err)
	}

	// The death signal comes when the thread that forked ends, so this
	// goroutine keeps its thread until the command is done.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	sigs := make(chan os.Signal, 8)
	signal.Notify(sigs, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(sigs)
	err = cmd.Start()
	reportW.Close()
	if err != nil {
		return 0, namespaceError(err, userNS)
	}
	report, _ := io.ReadAll(io.LimitReader(reportR, maxHello))
	if len(report) > 0 {
		_ = cmd.Wait()
		return 0, decodeReport(report, userNS)
	}
	if c.Started != nil {
		c.Started(cmd.Process.Pid)
	}
	gone := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, sock)
		close(gone)
	}()
	done := make(chan struct{})
	lost := make(chan error, 1)
	go func() { lost <- c.watch(ctx, cmd.Process, sigs, gone, done) }()
	err = cmd.Wait()
	close(done)
	why := <-lost
	code := exitCode(cmd.ProcessState)
	if why != nil {
		return code, why
	}
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok && !errors.Is(err, exec.ErrWaitDelay) {
		return code, fmt.Errorf("umadfs: attach: %w", err)
	}
	return code, nil
}

// stage is this program once more, which makes the mounts in a namespace of its
// own and then becomes the command.
func (c *Command) stage(userNS bool, sock, report *os.File) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	plan, err := json.Marshal(stage{Nodes: c.Nodes, Argv: c.Argv, Socket: c.Socket, UserNS: userNS, Parent: os.Getpid()})
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe)
	cmd.Args = []string{os.Args[0], "attach", strings.Join(c.Nodes, ","), "--", c.Argv[0]}
	env := c.Env
	if env == nil {
		env = os.Environ()
	}
	cmd.Env = append(env[:len(env):len(env)], stageEnv+"="+string(plan))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.In, c.Out, c.Err
	cmd.ExtraFiles = []*os.File{sock, report}
	cmd.WaitDelay = graceful
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if userNS {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	return cmd, nil
}

// watch passes signals on and ends the command when it must.
func (c *Command) watch(ctx context.Context, p *os.Process, sigs chan os.Signal, gone, done chan struct{}) (why error) {
	end := func(err error) {
		why = err
		_ = p.Signal(syscall.SIGTERM)
		t := time.NewTimer(graceful)
		defer t.Stop()
		select {
		case <-done:
		case <-t.C:
			_ = p.Kill()
			<-done
		}
	}
	for {
		select {
		case <-done:
			return nil
		case s := <-sigs:
			if (s == syscall.SIGINT || s == syscall.SIGQUIT) && foreground() {
				continue // the terminal tells the command itself
			}
			_ = p.Signal(s)
		case <-ctx.Done():
			end(ctx.Err())
			return why
		case <-gone:
			end(errors.New("umadfs: attach: the simulator ended; so did the command's devices"))
			return why
		}
	}
}

// foreground reports whether this process has a terminal whose keys signal
// the whole process group.
func foreground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	var pgrp int
	rc, err := tty.SyscallConn()
	if err != nil {
		return false
	}
	err2 := rc.Control(func(fd uintptr) { pgrp, err = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP) })
	return err == nil && err2 == nil && pgrp == unix.Getpgrp()
}

func exitCode(s *os.ProcessState) int {
	if s == nil {
		return 1
	}
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return s.ExitCode()
}

// CannotError says that this machine or this user cannot have virtual devices.
type CannotError struct {
	Op   string // what was tried
	Hint string // what to do
	Err  error
}

func (e *CannotError) Error() string {
	return "umadfs: attach: " + e.Op + ": " + e.Err.Error() + "; " + e.Hint
}

func (e *CannotError) Unwrap() error { return e.Err }

func namespaceError(err error, userNS bool) error {
	e := &CannotError{Op: "make a private mount namespace", Err: err}
	e.Hint = "it needs root with CAP_SYS_ADMIN (in a container: --cap-add SYS_ADMIN --device /dev/fuse and an AppArmor profile that allows mount)"
	if userNS {
		e.Op = "make a user and mount namespace"
		e.Hint = "this system does not let ordinary users have user namespaces (kernel.unprivileged_userns_clone, user.max_user_namespaces, AppArmor): run as root"
	}
	return e
}
