package etcd_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"heddle/internal/etcdmodel"
	"heddle/store/etcd"
)

// TestClaimVacant: a tool takes the term only from an owner that resigned, or does not answer.
func TestClaimVacant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cluster := t.Context(), etcdmodel.New(1)
		open := func(name string) *etcd.Store {
			s, err := etcd.Over(ctx, cluster.Client(), etcd.Options{Name: name, Wait: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		owner, tool := open("host-1"), open("host-2")
		defer owner.Close()
		defer tool.Close()
		var asked []string
		claim := func() (time.Duration, error) {
			asked = nil
			began := time.Now()
			err := tool.ClaimVacant(ctx, 0, func(who string) { asked = append(asked, who) })
			return time.Since(began), err
		}
		const who = `the manager on "host-1" (port GUID 0x0000000000000005)`
		if _, err := claim(); err != nil || asked != nil {
			t.Fatalf("without an owner: %v, asked %q", err, asked)
		}
		if err := tool.Resign(ctx); err != nil {
			t.Fatal(err)
		}
		win(t, owner, 5)
		if err := owner.Apply(put(1)); err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		attending := make(chan struct{})
		go func() {
			defer close(attending)
			for {
				select {
				case <-stop:
					return
				case <-time.After(etcd.AttendEvery):
					if err := owner.Attend(ctx); err != nil {
						t.Error(err)
					}
				}
			}
		}()
		for range 2 { // the answer to the first question says nothing about the second one
			took, err := claim()
			var used *etcd.OwnerError
			if !errors.As(err, &used) || used.Owner != who || len(asked) != 1 || asked[0] != who || took > 2*etcd.AttendEvery {
				t.Errorf("the owner lives: %v after %v, asked %q", err, took, asked)
			}
			if err := owner.Apply(put(2)); err != nil {
				t.Errorf("the owner lost the term: %v", err)
			}
		}
		close(stop)
		<-attending
		if took, err := claim(); err != nil || took < etcd.AnswerWait || took > 2*etcd.AnswerWait {
			t.Errorf("the owner is gone: %v after %v", err, took)
		}
		// Its next change says who has the term.
		if err := owner.Apply(put(3)); !errors.Is(err, etcd.ErrSuperseded) || !strings.HasSuffix(err.Error(), `the term was lost to 'heddle store import' on "host-2", which replaces the state`) {
			t.Errorf("after the claim: %v", err)
		}
		win(t, owner, 5)
		if err := owner.Resign(ctx); err != nil {
			t.Fatal(err)
		}
		if took, err := claim(); err != nil || took > time.Second || asked != nil {
			t.Errorf("the owner resigned: %v after %v, asked %q", err, took, asked)
		}
	})
}
