// Package umadfs gives unmodified programs a simulated port as a user MAD device: ibstat,
// saquery, opensm, osmtest, or transport/umad, find /dev/infiniband/umad0 and the files in
// /sys/class that belong to it, and the simulator emulates them.
//
// Three parts work together:
//
//   - package kernel emulates Linux' MAD layer for one port;
//   - a Server, in the simulator's process, answers the file system requests
//     of any number of mounts out of the kernel state of their ports;
//   - Attach makes a private mount namespace, mounts the devices there, hands
//     the mount's /dev/fuse descriptor to the Server over the abstract socket
//     NAME:umad, and runs a command.
//
// All kernel state of a port (agents, method masks, transaction IDs, RMPP, timers, issm) so
// lives in one place, and several commands attached to one node share its adapter as programs
// on one host do. A request needs no second process: the command's system call comes out of
// /dev/fuse in the simulator.
//
//	srv, err := umadfs.Listen(driver, "ibsim0")      // heddle sim
//	code, err := umadfs.Attach(ctx, "H1", "ibsim0", []string{"saquery", "NR"}, std) // heddle attach
//
// # Requirements
//
// FUSE in the kernel, /dev/fuse, and the right to mount: root, or a system that gives ordinary
// users user namespaces. Errors about that are *CannotError and name the remedy. A program that
// attaches must call Stage first thing in main.
//
// # Restrictions
//
// Never use an attached device from the Server's own process: the Go runtime polls files from
// threads that hold a scheduler slot, and the answer would have to come from the same process.
// Tests run client code in a copy of the test binary. End the commands before the Server: a
// program may fail badly when its device vanishes (opensm spins). Attach does this when the
// simulator ends in good order, and kills the command when it does not.
//
// Server and Command may be used concurrently.
package umadfs
