package saload

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"heddle/internal/bench/testbed"
)

// onSim starts a simulator for an SA.
func onSim(b *testbed.Testbed, who, net string) (*served, error) {
	p, name, err := b.Simulate("heddle sim", net)
	if err != nil {
		return nil, err
	}
	return &served{who: who, sock: name, procs: []*testbed.Program{p}}, nil
}

// echoSA is the limit: a subnet that is up, and an SA that does nothing.
func echoSA(b *testbed.Testbed, net string) (*served, error) {
	s, err := onSim(b, "(limit)", net)
	if err != nil {
		return nil, err
	}
	if _, err := testbed.Output(b.Dir, nil, b.Heddle, "sm", "--once", "--port", "ibsim:@"+s.sock, "--api", "", "--api-socket", filepath.Join(b.Dir, s.sock+".api")); err != nil {
		return s, err
	}
	s.echo, err = startEcho(s.sock)
	return s, err
}

func ourSA(b *testbed.Testbed, netlist string) (*served, error) {
	s, err := onSim(b, "heddle", netlist)
	if err != nil {
		return nil, err
	}
	api := filepath.Join(b.Dir, s.sock+".api")
	p, err := testbed.Launch(b.Dir, nil, b.Heddle, "sm", "--port", "ibsim:@"+s.sock, "--api", "", "--api-socket", api)
	if err != nil {
		return s, err
	}
	s.procs = append(s.procs, p)
	c := testbed.UnixClient(api, 20*time.Second)
	s.busy = map[string]func(<-chan struct{}) error{
		sweeping: func(stop <-chan struct{}) error { return ourSweep(c, "/v1/sweep", stop) },
		routing:  func(stop <-chan struct{}) error { return ourSweep(c, "/v1/reroute?rebalance=true", stop) },
	}
	_, err = p.Await("SUBNET UP", b.Limit)
	return s, err
}

// ourSweep requests a sweep from the manager and waits for its end.
func ourSweep(c *http.Client, path string, stop <-chan struct{}) error {
	before, err := sweepsMade(c)
	if err != nil {
		return err
	}
	resp, err := c.Post("http://localhost"+path, "application/json", nil)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode >= 300 {
		return fmt.Errorf("POST %s: %s", path, resp.Status)
	}
	for {
		n, err := sweepsMade(c)
		if err != nil || n > before {
			return err
		}
		select {
		case <-stop:
			return nil
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// sweepsMade is how many sweeps have ended.
func sweepsMade(c *http.Client) (n uint64, err error) {
	resp, err := c.Get("http://localhost/v1/status")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var st struct {
		Sweeps uint64 `json:"sweeps"`
	}
	err = json.NewDecoder(resp.Body).Decode(&st)
	return st.Sweeps, err
}

// theirSA is OpenSM; a hangup makes it sweep and route anew.
func theirSA(b *testbed.Testbed, net string) (*served, error) {
	s, err := onSim(b, "OpenSM", net)
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp(b.Dir, "sa")
	if err != nil {
		return s, err
	}
	p, err := b.StartOpenSM(tmp, s.sock, "", "-d", "2", "-f", "stdout", "-R", "minhop")
	if err != nil {
		return s, err
	}
	s.procs = append(s.procs, p)
	const up = "SUBNET UP"
	s.busy = map[string]func(<-chan struct{}) error{sweeping: func(stop <-chan struct{}) error {
		before := strings.Count(p.Output(), up)
		p.Signal(syscall.SIGHUP)
		for strings.Count(p.Output(), up) == before {
			select {
			case <-stop:
				return nil
			case <-p.Done():
				return fmt.Errorf("OpenSM ended: %s", testbed.Last(p.Output()))
			case <-time.After(5 * time.Millisecond):
			}
		}
		return nil
	}}
	_, err = p.Await(up, b.Limit)
	if errors.Is(err, testbed.ErrLimit) {
		s.end()
		s.over, s.busy, err = true, nil, nil
	}
	return s, err
}
