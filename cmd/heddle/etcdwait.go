package main

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"heddle/store/etcd"
)

// etcdSoon is how long etcd has to answer before the wait for it is reported.
const etcdSoon = 2 * time.Second

// openSaying opens a shared state, and says soon why that takes long. The client itself only says that it
// waits.
func openSaying(ctx context.Context, o etcd.Options, say func(why error)) (*etcd.Store, error) {
	var saying sync.WaitGroup
	defer saying.Wait()
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	saying.Go(func() {
		if why := whyAway(limited, o.Endpoints, connects); limited.Err() == nil {
			say(why)
		}
	})
	return etcd.Open(ctx, o)
}

// whyAway connects with the members of etcd, and returns why none can be reached, or at the latest after
// etcdSoon that none answers.
func whyAway(ctx context.Context, endpoints []string, connect func(ctx context.Context, address string) error) error {
	limited, cancel := context.WithTimeout(ctx, etcdSoon)
	defer cancel()
	failed := make([]error, len(endpoints))
	var tries sync.WaitGroup
	for i, e := range endpoints {
		tries.Go(func() { failed[i] = connect(limited, e) })
	}
	tries.Wait()
	var causes []string
	for i, err := range failed {
		if err == nil { // it has time to answer
			<-limited.Done()
			return errors.New("it accepts connections, but does not answer, or has no majority")
		}
		causes = append(causes, endpoints[i]+": "+causeOf(err))
	}
	if len(causes) == 1 {
		return errors.New(causeOf(failed[0]))
	}
	return errors.New(strings.Join(causes, ", "))
}

// connects makes a connection and closes it.
func connects(ctx context.Context, address string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return c.Close()
}

// causeOf is why a connection failed, without the address.
func causeOf(err error) string {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e.Error()
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return "no answer"
	}
	return err.Error()
}
