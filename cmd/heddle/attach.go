package main

import (
	"context"
	"os/exec"

	"github.com/spf13/cobra"

	"heddle/sim/umadfs"
)

func newAttach() *cobra.Command {
	c := &cobra.Command{
		Use:     "attach NODE[@SOCKNAME] -- COMMAND [ARG...]",
		GroupID: "sim",
		Short:   "Run any user-MAD program on a simulated node",
		Long: `Runs COMMAND in a private mount namespace in which the user-MAD device
/dev/infiniband/umad0 (device heddle0) is NODE's HCA, or switch port 0, on the
simulator that serves SOCKNAME ('heddle sim --socket SOCKNAME'; default:
IBSIM_SOCKNAME, else sim). NODE is a netlist id or a node description, or the
name of a VM, whose HCA is the virtual function that it is on.

The device behaves as the kernel's does: agents and method masks, transaction
ids, RMPP, time-outs and retries, one IsSM holder. The state is the simulator's,
so programs attached to one NODE share it as they would share a real HCA.

Needs /dev/fuse, and the right to mount: root, or user namespaces. The exit
status is COMMAND's, 127 if there is no such command, and 1 if it could not be
attached.`,
		Example: `  heddle attach Hca1 -- ibstat
  heddle attach 'host-1@my-fabric' -- saquery NR
  heddle attach host-1@my-fabric -- heddle sm --port umad:heddle0/1`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(command(args)) == 0 {
				return usagef("want a node and a command: heddle attach NODE[@SOCKNAME] -- COMMAND [ARG...]")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := exec.LookPath(command(args)[0]); err != nil {
				return &exitError{127, err} // like a shell
			}
			node, sock := nodeAndSocket(args[0])
			// Attach forwards signals to the command, whose exit ends this process.
			code, err := umadfs.Attach(context.WithoutCancel(cmd.Context()), node, sock, command(args),
				umadfs.Stdio{In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()})
			if err != nil || code != 0 {
				return &exitError{max(code, 1), err}
			}
			return nil
		},
	}
	// Arguments after the node belong to the command, including options.
	c.Flags().SetInterspersed(false)
	return c
}

// command returns the command from the arguments of attach, after the node and,
// usually, a --.
func command(args []string) []string {
	if len(args) > 1 && args[1] == "--" {
		return args[2:]
	}
	return args[min(1, len(args)):]
}
