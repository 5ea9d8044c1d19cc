package main

import (
	"strings"
	"testing"
)

// TestPortOptions: who makes segments is said behind the port's name.
func TestPortOptions(t *testing.T) {
	for _, c := range []struct {
		spec, name string
		own        bool
		err        string
	}{
		{spec: "mlx5_0/1", name: "mlx5_0/1"},
		{spec: "mlx5_0/1,rmpp=own", name: "mlx5_0/1", own: true},
		{spec: ",rmpp=own", own: true},
		{spec: "mlx5_0,rmpp=own,rmpp=kernel", name: "mlx5_0"},
		{spec: "mlx5_0,rmpp=on", err: "rmpp=own or rmpp=kernel"},
	} {
		o, err := umadOptions(c.spec)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("umad:%s: %v", c.spec, err)
			}
			continue
		}
		if err != nil || o.Name != c.name || o.OwnRMPP != c.own {
			t.Errorf("umad:%s: %+v, %v", c.spec, o, err)
		}
	}
	if o, segment, err := ibsimOptions("host-1@net,rmpp=on"); err != nil || !segment || o.Node != "host-1" || o.SockName != "net" {
		t.Errorf("ibsim: %+v, %v, %v", o, segment, err)
	}
	if _, _, err := ibsimOptions("host-1,rmpp=own"); err == nil {
		t.Error("ibsim: rmpp=own was taken")
	}
}
