package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"heddle/store"
	"heddle/store/etcd"
	"heddle/store/journal"
)

// storeEtcd has the flags of commands that work on a shared state.
type storeEtcd struct{ smFlags }

func newStoreEtcd(c *cobra.Command) storeEtcd {
	f := storeEtcd{newSMFlags()}
	fl, e := c.Flags(), &f.Etcd
	fl.StringVar(&e.Authority, "etcd-ca", "", "`FILE` with the certificate of the authority of etcd's certificates")
	fl.StringVar(&e.Certificate, "etcd-cert", "", "`FILE` with the certificate to show to etcd")
	fl.StringVar(&e.Key, "etcd-key", "", "`FILE` with its key")
	fl.StringVar(&e.User, "etcd-user", "", "`USER` of etcd's own authentication")
	fl.StringVar(&e.Password, "etcd-password-file", "", "`FILE` with that user's password")
	return f
}

func isEtcd(arg string) bool { return strings.HasPrefix(arg, etcd.Scheme) }

// storeWait bounds what a command does with a shared state.
const storeWait = time.Minute

// with opens the shared state of a URL for f. It says on standard error that it waits for etcd.
func (f storeEtcd) with(cmd *cobra.Command, url string, do func(ctx context.Context, st *etcd.Store) error) error {
	f.Etcd.Store = url
	if err := f.Check(); err != nil {
		return &usageError{err}
	}
	o, err := f.etcdOptions(slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	o.Wait = storeWait / 10
	ctx, cancel := context.WithTimeout(cmd.Context(), storeWait)
	defer cancel()
	st, err := openSaying(ctx, o, func(why error) {
		fmt.Fprintf(cmd.ErrOrStderr(), "waiting for etcd at %s, up to %.0f s: %v\n", strings.Join(o.Endpoints, ","), storeWait.Seconds(), why)
	})
	if err != nil {
		return err
	}
	return errors.Join(do(ctx, st), st.Close())
}

// read returns what a shared state holds.
func (f storeEtcd) read(cmd *cobra.Command, url string) (s *store.State, at journal.Mark, err error) {
	err = f.with(cmd, url, func(_ context.Context, st *etcd.Store) error {
		if s, at, err = st.Contents(); err == nil && at == (journal.Mark{}) {
			err = fmt.Errorf("%s has no state: no manager has written there; look at the prefix, the part after the last address", url)
		}
		return err
	})
	return s, at, err
}

// write puts a state in the place of a shared one, unless a manager has the term.
func (f storeEtcd) write(cmd *cobra.Command, url string, s *store.State, at journal.Mark, over overwrite) error {
	return f.with(cmd, url, func(ctx context.Context, st *etcd.Store) error {
		had, last, err := st.Contents()
		switch {
		case err != nil:
			return err
		case last != journal.Mark{} && !over.replace:
			return fmt.Errorf("%s has a state (%v); give --replace to put the backup in its place", url, last)
		}
		if err := over.check(url, s, had); err != nil {
			return err
		}
		err = st.ClaimVacant(ctx, 0, func(owner string) {
			fmt.Fprintf(cmd.ErrOrStderr(), "asking whether %s still runs, which takes up to %.0f s\n", owner, etcd.AnswerWait.Seconds())
		})
		if used, ok := errors.AsType[*etcd.OwnerError](err); ok {
			return fmt.Errorf("%s: %s uses this state, and nothing was changed: stop all managers of the prefix first", url, used.Owner)
		}
		if err != nil {
			return err
		}
		// Others may have written until then, and terms never fall.
		if last, err = st.Last(); err != nil {
			return err
		}
		if last.Compare(at) >= 0 {
			at = journal.Mark{Term: last.Term.Next(0), Number: last.Number + 1}
		}
		return errors.Join(st.Replace(s, at), st.Resign(ctx))
	})
}
