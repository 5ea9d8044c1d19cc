// Package kerneltest runs the checks of transport/umad/abitest against the real
// kernel's ib_umad, in a virtual machine: `make test-kernel`.
//
// The machine boots Debian's kernel in QEMU, without KVM. Its root is an
// initramfs made by the test: the test binary as init and the modules it loads.
// There the binary creates a software RDMA device (rdma_rxe on a dummy
// interface) and runs the checks on it, on QP1 only: RoCE has no QP0. The
// results arrive on the serial console.
//
// Requirements: qemu-system-x86_64 (installed with apt-get where that is
// allowed), dpkg-deb, and the kernel's package, which the test fetches with
// apt-get unless HEDDLE_KERNEL_DEB names the file. The test runs only with
// HEDDLE_KERNEL=1.
package kerneltest
