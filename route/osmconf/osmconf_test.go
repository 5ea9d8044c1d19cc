package osmconf_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"heddle/ib"
	"heddle/route"
	"heddle/route/osmconf"
)

func TestFiles(t *testing.T) {
	guids, err := osmconf.GUIDs(strings.NewReader("# roots\n\n0x0002c9020041a2b0 # spine 1\n  17\n"))
	if want := []ib.GUID{0x2c9020041a2b0, 17}; err != nil || !reflect.DeepEqual(guids, want) {
		t.Errorf("GUIDs: %v, %v; want %v", guids, err, want)
	}
	ids, err := osmconf.IDs(strings.NewReader("0x10 7\n0x11 0x20\n0x10 7\n"))
	if want := (map[ib.GUID]uint64{0x10: 7, 0x11: 32}); err != nil || !reflect.DeepEqual(ids, want) {
		t.Errorf("IDs: %v, %v; want %v", ids, err, want)
	}
	hops, err := osmconf.HopWeights(strings.NewReader("0x10 13 4"))
	if want := []route.HopWeight{{Switch: 0x10, Port: 13, Weight: 4}}; err != nil || !reflect.DeepEqual(hops, want) {
		t.Errorf("HopWeights: %v, %v; want %v", hops, err, want)
	}
	order, err := osmconf.PortOrder(strings.NewReader("0x10 7 8 9 1\n"))
	if want := (map[ib.GUID][]uint8{0x10: {7, 8, 9, 1}}); err != nil || !reflect.DeepEqual(order, want) {
		t.Errorf("PortOrder: %v, %v; want %v", order, err, want)
	}
}

func TestBadLines(t *testing.T) {
	read := map[string]func(string) error{
		"guids": func(s string) error { _, err := osmconf.GUIDs(strings.NewReader(s)); return err },
		"ids":   func(s string) error { _, err := osmconf.IDs(strings.NewReader(s)); return err },
		"hops":  func(s string) error { _, err := osmconf.HopWeights(strings.NewReader(s)); return err },
		"order": func(s string) error { _, err := osmconf.PortOrder(strings.NewReader(s)); return err },
	}
	for _, c := range []struct {
		file, text string
		line       int
		says       string
	}{
		{"guids", "0x1\nspine1", 2, `"spine1" is not a GUID`},
		{"guids", "0", 1, `"0" is not a GUID`},
		{"guids", "0x1\n" + strings.Repeat("f", 1<<20), 2, "too long"},
		{"ids", "0x1", 1, "found 1 fields"},
		{"ids", "0x1 x", 1, `"x" is not a number`},
		{"ids", "0x1 1\n0x1 2", 2, "has the number 1 already"},
		{"ids", "y 1", 1, "is not a GUID"},
		{"hops", "0x1 255 1", 1, "not a port number"},
		{"hops", "0x1 1 0", 1, "not a weight"},
		{"hops", "0x1 1 256", 1, "not a weight"},
		{"hops", "0x1 1", 1, "found 2 fields"},
		{"order", "0x1", 1, "no port follows"},
		{"order", "0x1 1 2 1", 1, "named twice"},
		{"order", "0x1 1\n\n0x1 2", 3, "a line already"},
		{"order", "0x1 0", 1, "not a port number"},
	} {
		err := read[c.file](c.text)
		var e *osmconf.Error
		if !errors.As(err, &e) || e.Line != c.line || !strings.Contains(e.Error(), c.says) {
			t.Errorf("%s %.40q: %v; want line %d: …%s…", c.file, c.text, err, c.line, c.says)
		}
	}
}

func FuzzFiles(f *testing.F) {
	f.Add([]byte("0x10 7 8 # x\n0x11 1 2"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = osmconf.GUIDs(bytes.NewReader(b))
		_, _ = osmconf.IDs(bytes.NewReader(b))
		hops, err := osmconf.HopWeights(bytes.NewReader(b))
		for _, h := range hops {
			if err != nil || h.Weight == 0 || h.Port == 0 {
				t.Errorf("%+v with %v", h, err)
			}
		}
		_, _ = osmconf.PortOrder(bytes.NewReader(b))
	})
}
