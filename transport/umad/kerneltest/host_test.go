package kerneltest

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/internal/need"
)

func TestMain(m *testing.M) {
	if os.Getpid() == 1 {
		guest() // does not return
	}
	os.Exit(m.Run())
}

// wanted are the modules that the guest loads; what they depend on comes with
// them. crc32_generic is what rdma_rxe asks the crypto layer for.
var wanted = []string{"crc32_generic", "dummy", "ib_core", "ib_uverbs", "ib_umad", "rdma_rxe"}

// bootLimit bounds the whole run of the machine.
const bootLimit = 5 * time.Minute

const resultMark = "HEDDLE RESULT "

// TestRealKernel boots the machine and reports each of its checks.
func TestRealKernel(t *testing.T) {
	if os.Getenv("HEDDLE_KERNEL") == "" {
		need.Missing(t, "kernel", "runs in make test-kernel (HEDDLE_KERNEL=1)")
	}
	qemu := emulator(t)
	deb := kernelPackage(t)
	t.Logf("kernel package %s", filepath.Base(deb))
	image, modules := unpack(t, deb)
	dir := t.TempDir()
	kernel, initrd := filepath.Join(dir, "vmlinuz"), filepath.Join(dir, "initrd.gz")
	if err := os.WriteFile(kernel, image, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(initrd, initramfs(t, modules), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), bootLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, qemu,
		"-machine", "q35,accel=tcg", "-cpu", "max", "-smp", "2", "-m", "768",
		"-kernel", kernel, "-initrd", initrd, "-append", "console=ttyS0 quiet panic=-1",
		"-display", "none", "-serial", "stdio", "-monitor", "none", "-no-reboot", "-nic", "none")
	start := time.Now()
	out, err := cmd.CombinedOutput()
	t.Logf("the machine ran %v", time.Since(start).Round(time.Second))
	text := strings.ReplaceAll(string(out), "\r", "")
	if err != nil {
		t.Fatalf("qemu: %v\n%s", err, text)
	}
	result := ""
	checks := 0
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "ok "), strings.HasPrefix(line, "FAIL "), strings.HasPrefix(line, "-- "):
			checks++
			name, why, _ := strings.Cut(line[strings.IndexByte(line, ' ')+1:], ": ")
			name, _, _ = strings.Cut(name, " (")
			t.Run(name, func(t *testing.T) {
				if !strings.HasPrefix(line, "ok ") {
					t.Error(why)
				}
			})
		case strings.HasPrefix(line, "kernel "), strings.HasPrefix(line, "device "):
			t.Log(line)
		case strings.HasPrefix(line, resultMark):
			result = strings.TrimPrefix(line, resultMark)
		}
	}
	t.Logf("%d checks, result: %s", checks, result)
	if result != "0 failed" || checks == 0 {
		t.Errorf("the machine said:\n%s", text)
	}
}

// emulator finds QEMU, and installs it where this user may.
func emulator(t *testing.T) string {
	const name = "qemu-system-x86_64"
	if _, err := exec.LookPath(name); err != nil && os.Geteuid() == 0 {
		cmd := exec.CommandContext(t.Context(), "apt-get", "-qq", "-y", "--no-install-recommends", "install", "qemu-system-x86")
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Logf("apt-get install qemu-system-x86: %v\n%s", err, out)
		}
	}
	return need.Tool(t, name)
}

// kernelPackage finds or fetches Debian's kernel.
func kernelPackage(t *testing.T) string {
	if deb := os.Getenv("HEDDLE_KERNEL_DEB"); deb != "" {
		return deb
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	cache = filepath.Join(cache, "heddle-kernel")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	apt := need.Tool(t, "apt-get")
	out, err := exec.CommandContext(t.Context(), "apt-cache", "depends", "linux-image-amd64").CombinedOutput()
	if err != nil {
		need.Missing(t, "kernel", fmt.Sprintf("apt-cache depends linux-image-amd64: %v: %s", err, out))
	}
	m := regexp.MustCompile(`Depends: (linux-image-\S+)`).FindSubmatch(out)
	if m == nil {
		need.Missing(t, "kernel", "linux-image-amd64 depends on no kernel package: run apt-get update")
	}
	pattern := filepath.Join(cache, string(m[1])+"_*.deb")
	if have, _ := filepath.Glob(pattern); len(have) > 0 {
		return have[len(have)-1]
	}
	cmd := exec.CommandContext(t.Context(), apt, "download", "-o", "APT::Sandbox::User=root", string(m[1]))
	cmd.Dir = cache
	if out, err := cmd.CombinedOutput(); err != nil {
		need.Missing(t, "kernel", fmt.Sprintf("apt-get download %s: %v: %s", m[1], err, out))
	}
	have, _ := filepath.Glob(pattern)
	if len(have) == 0 {
		t.Fatalf("apt-get download left no %s", pattern)
	}
	return have[len(have)-1]
}

// module is a kernel module with its file and what it depends on.
type module struct {
	name    string
	data    []byte
	depends []string
}

// unpack takes the kernel image and the modules, in the order in which they
// must be loaded, out of the package.
func unpack(t *testing.T, deb string) (image []byte, order []module) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), need.Tool(t, "dpkg-deb"), "--fsys-tarfile", deb)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	all := map[string]module{}
	tr := tar.NewReader(bufio.NewReaderSize(pipe, 1<<20))
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v %s", deb, err, stderr.String())
		}
		base := path.Base(h.Name)
		name, isModule := strings.CutSuffix(base, ".ko")
		name = strings.ReplaceAll(name, "-", "_")
		switch {
		case strings.HasPrefix(base, "vmlinuz-"):
			if image, err = io.ReadAll(tr); err != nil {
				t.Fatal(err)
			}
		case isModule && mayNeed(h.Name):
			data, err := io.ReadAll(tr)
			if err != nil {
				t.Fatal(err)
			}
			deps, err := dependsOf(data)
			if err != nil {
				t.Fatalf("%s: %v", h.Name, err)
			}
			all[name] = module{name: name, data: data, depends: deps}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("dpkg-deb: %v %s", err, stderr.String())
	}
	var add func(name string)
	add = func(name string) {
		if slices.ContainsFunc(order, func(m module) bool { return m.name == name }) {
			return
		}
		m, ok := all[name]
		if !ok {
			t.Fatalf("the kernel package has no module %s.ko (compressed modules are not read)", name)
		}
		for _, d := range m.depends {
			add(d)
		}
		order = append(order, m)
	}
	for _, w := range wanted {
		add(w)
	}
	if image == nil {
		t.Fatal("the kernel package has no vmlinuz")
	}
	return image, order
}

// mayNeed keeps the modules of the parts of the kernel that can matter.
func mayNeed(name string) bool {
	for _, dir := range []string{"/drivers/infiniband/", "/drivers/net/dummy", "/crypto/", "/lib/", "/net/ipv4/", "/net/ipv6/", "/net/core/", "/fs/configfs/"} {
		if strings.Contains(name, "/kernel"+dir) {
			return true
		}
	}
	return false
}

// dependsOf reads the depends= line of a module.
func dependsOf(ko []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(ko))
	if err != nil {
		return nil, err
	}
	s := f.Section(".modinfo")
	if s == nil {
		return nil, errors.New("no .modinfo section")
	}
	b, err := s.Data()
	if err != nil {
		return nil, err
	}
	for line := range strings.SplitSeq(string(b), "\x00") {
		if deps, ok := strings.CutPrefix(line, "depends="); ok && deps != "" {
			return strings.Split(strings.ReplaceAll(deps, "-", "_"), ","), nil
		}
	}
	return nil, nil
}

// initramfs packs a static copy of this test binary as init, and the modules.
func initramfs(t *testing.T, modules []module) []byte {
	t.Helper()
	init := staticSelf(t)
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	c := &cpio{w: z}
	for _, d := range []string{"dev", "proc", "sys", "modules", "tmp"} {
		c.add(d, 0o040755, nil)
	}
	c.add("init", 0o100755, init)
	for i, m := range modules {
		c.add(fmt.Sprintf("modules/%02d-%s.ko", i, m.name), 0o100644, m.data)
	}
	c.add("TRAILER!!!", 0, nil)
	if err := errors.Join(c.err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// staticSelf is this test binary, built anew if it needs a dynamic loader.
func staticSelf(t *testing.T) []byte {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	dynamic := slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	f.Close()
	if dynamic {
		exe = filepath.Join(t.TempDir(), "init")
		cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", exe, ".")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build a static test binary: %v\n%s", err, out)
		}
	}
	b, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// cpio writes a "newc" archive.
type cpio struct {
	w   io.Writer
	n   int
	ino int
	err error
}

func (c *cpio) add(name string, mode int, data []byte) {
	c.ino++
	c.write(fmt.Appendf(nil, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		c.ino, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0))
	c.write(append([]byte(name), 0))
	c.pad()
	c.write(data)
	c.pad()
}

func (c *cpio) pad() { c.write(make([]byte, -c.n&3)) }

func (c *cpio) write(b []byte) {
	if c.err == nil {
		_, c.err = c.w.Write(b)
		c.n += len(b)
	}
}
