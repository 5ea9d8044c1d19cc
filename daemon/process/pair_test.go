package process_test

import (
	"errors"
	"fmt"
	"testing"

	"heddle/daemon"
	"heddle/daemon/process"
	"heddle/mad"
	"heddle/replica"
	"heddle/replica/live"
)

type closedPort struct{ mad.Transport }

func (closedPort) Close() error { return nil }

// TestPairEnded: a manager whose mandate ends is followed by the next one, also if the mandate
// ended while the manager started.
func TestPairEnded(t *testing.T) {
	other := errors.New("a file cannot be read")
	for _, c := range []struct {
		err   error
		again bool
	}{
		{daemon.ErrRevoked, true},
		{fmt.Errorf("%w: mlx5_0/1: %w", daemon.ErrBusy, live.ErrCut), true},
		{fmt.Errorf("import: %w", replica.ErrStandby), true},
		{replica.ErrSuperseded, true},
		{other, false},
		{nil, false},
	} {
		var p process.Pair
		again, err := p.Ended(&process.Mandate{Port: closedPort{}}, c.err)
		if again != c.again || !again && !errors.Is(err, c.err) {
			t.Errorf("after %v: again %v, %v", c.err, again, err)
		}
	}
}
