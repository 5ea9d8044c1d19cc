package umad

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"heddle/ib"
)

// fakeSys writes a class tree: two InfiniBand ports of one HCA, the second
// with a link, and a RoCE port.
func fakeSys(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		p := filepath.Join(root, "class", path)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("infiniband_mad/abi_version", "5")
	for i, p := range [][2]string{{"mlx5_0", "2"}, {"mlx5_0", "1"}, {"rocep1", "1"}} {
		for _, kind := range []string{"umad", "issm"} {
			d := "infiniband_mad/" + kind + string(rune('0'+i)) + "/"
			write(d+"ibdev", p[0])
			write(d+"port", p[1])
		}
	}
	for ca, guid := range map[string]string{"mlx5_0": "506b:4b03:00cc:1234", "rocep1": "0000:0000:0000:0001"} {
		write("infiniband/"+ca+"/node_type", "1: CA")
		write("infiniband/"+ca+"/node_guid", guid)
		write("infiniband/"+ca+"/node_desc", ca+" of node7")
	}
	port := func(dir, lid, state, phys, layer, gid string) {
		dir = "infiniband/" + dir + "/"
		write(dir+"lid", lid)
		write(dir+"lid_mask_count", "1")
		write(dir+"sm_lid", "0x2")
		write(dir+"sm_sl", "3")
		write(dir+"state", state)
		write(dir+"phys_state", phys)
		write(dir+"cap_mask", "0x2651e84a")
		write(dir+"link_layer", layer)
		write(dir+"rate", "100 Gb/sec (4X EDR)")
		write(dir+"gids/0", gid)
		write(dir+"gids/1", "0000:0000:0000:0000:0000:0000:0000:0000")
		write(dir+"pkeys/0", "0x8001")
		write(dir+"pkeys/1", "0xffff")
		write(dir+"pkeys/2", "0x0000")
	}
	port("mlx5_0/ports/1", "0x0", "1: DOWN", "2: Polling", "InfiniBand", "fe80:0000:0000:0000:506b:4b03:00cc:1234")
	port("mlx5_0/ports/2", "0x11", "4: ACTIVE", "5: LinkUp", "InfiniBand", "fe80:0000:0000:0000:506b:4b03:00cc:1235")
	port("rocep1/ports/1", "0x0", "4: ACTIVE", "5: LinkUp", "Ethernet", "fe80:0000:0000:0000:0000:0000:0000:0001")
	return root
}

func TestDiscover(t *testing.T) {
	devs, err := Discover(fakeSys(t))
	if err != nil || len(devs) != 3 {
		t.Fatal(devs, err)
	}
	d := devs[1]
	if d.Name() != "mlx5_0/2 (umad0)" || d.Issm != "issm0" || d.NodeType != ib.NodeCA || d.NodeDesc != "mlx5_0 of node7" ||
		d.NodeGUID != 0x506b4b0300cc1234 || d.PortGUID != 0x506b4b0300cc1235 || d.LID != 0x11 || d.LMC != 1 || d.SMLID != 2 || d.SMSL != 3 ||
		d.State != ib.StateActive || d.PhysState != ib.PhysLinkUp || d.CapMask != 0x2651e84a || !d.IsInfiniBand() ||
		d.Rate != "100 Gb/sec (4X EDR)" || len(d.GIDs) != 1 || len(d.PKeys) != 3 || d.DefaultPKeyIndex() != 1 {
		t.Errorf("%+v", d)
	}
	if devs[0].Umad != "umad1" || devs[2].IsInfiniBand() {
		t.Errorf("%+v", devs)
	}
	if none, err := Discover(t.TempDir()); err != nil || len(none) != 0 {
		t.Errorf("a machine without devices: %v, %v", none, err)
	}
}

func TestFind(t *testing.T) {
	devs, err := Discover(fakeSys(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"": "umad0", "mlx5_0": "umad1", "mlx5_0/2": "umad0", "mlx5_0:2": "umad0", "umad2": "umad2", "0x506b4b0300cc1235": "umad0", "rocep1/1": "umad2",
	} {
		if d, err := find(devs, name); err != nil || d.Umad != want {
			t.Errorf("%q: %v, %v; want %s", name, d, err, want)
		}
	}
	for _, name := range []string{"mlx5_1", "mlx5_0/3", "mlx5_0/x", "mlx5_0:x", "mlx5_0:2/1", "umad9", "0x1234"} {
		_, err := find(devs, name)
		if !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := find(nil, ""); err == nil || !strings.Contains(err.Error(), "ib_umad") {
		t.Errorf("no devices: %v", err)
	}
	_, err = OpenPort(Options{Name: "rocep1", Sys: fakeSys(t)})
	if !errors.Is(err, ErrNoSMI) {
		t.Errorf("a manager on Ethernet: %v", err)
	}
	_, err = OpenPort(Options{Sys: fakeSys(t), Dev: t.TempDir()})
	if !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), "mlx5_0/2 (umad0)") {
		t.Errorf("no device file: %v", err)
	}
}

func TestMillis(t *testing.T) {
	for d, want := range map[time.Duration]uint32{0: 0, -1: 0, 1: 1, time.Millisecond: 1, 1500 * time.Microsecond: 2, 1 << 62: 1<<31 - 1} {
		if got := millis(d); got != want {
			t.Errorf("millis(%v) = %d, want %d", d, got, want)
		}
	}
}
