package main

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"heddle/store/etcd"
)

// cancels ends a context when something was written.
type cancels struct {
	strings.Builder
	end context.CancelFunc
}

func (c *cancels) Write(b []byte) (int, error) {
	defer c.end()
	return c.Builder.Write(b)
}

// TestEtcdIsAway: a command that waits for etcd says so immediately, and why.
func TestEtcdIsAway(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	errs := &cancels{end: cancel}
	code := run(ctx, []string{"store", "check", etcd.Scheme + address + "/x"}, strings.NewReader(""), &strings.Builder{}, errs)
	if want := "waiting for etcd at " + address + ", up to 60 s: connection refused\n"; code != 1 || !strings.HasPrefix(errs.String(), want) {
		t.Errorf("exit status %d: %s", code, errs.String())
	}
}

// TestWhyAway: what each member says, if all cannot be reached, else that none answers.
func TestWhyAway(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	unknown := &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "m2"}}
	for _, c := range []struct {
		fail map[string]error
		want string
		wait time.Duration
	}{
		{map[string]error{"m1:1": refused, "m2:1": unknown}, "m1:1: connection refused, m2:1: no such host", 0},
		{map[string]error{"m1:1": refused}, "it accepts connections, but does not answer, or has no majority", etcdSoon},
		{map[string]error{"m1:1": refused, "m2:1": context.DeadlineExceeded}, "m1:1: connection refused, m2:1: no answer", etcdSoon},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			err := whyAway(t.Context(), []string{"m1:1", "m2:1"}, func(ctx context.Context, address string) error {
				if errors.Is(c.fail[address], context.DeadlineExceeded) {
					<-ctx.Done()
					return ctx.Err()
				}
				return c.fail[address]
			})
			if took := time.Since(began); err.Error() != c.want || took != c.wait {
				t.Errorf("%v after %v; want %s after %v", err, took, c.want, c.wait)
			}
		})
	}
}
