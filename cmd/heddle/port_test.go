package main

import (
	"strings"
	"testing"
)

// TestPortOptions: the option after the port's name says which clients get RMPP
// segments.
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
	for spec, want := range map[string]segmenting{
		"host-1@net": segmentAsked, "host-1@net,rmpp=on": segmentAll, "host-1@net,rmpp=on,rmpp=off": segmentNone,
	} {
		o, seg, err := ibsimOptions(spec)
		if err != nil || seg != want || o.Reassembles != (want != segmentNone) || o.Node != "host-1" || o.SockName != "net" {
			t.Errorf("ibsim:%s: %+v, %v, %v", spec, o, seg, err)
		}
	}
	if _, _, err := ibsimOptions("host-1,rmpp=own"); err == nil {
		t.Error("ibsim: rmpp=own was taken")
	}
}
