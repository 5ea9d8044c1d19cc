package cc

import (
	"testing"

	"heddle/internal/wiretest"
)

// TestLibibmad compares fields with what another decoder read from the same bytes.
func TestLibibmad(t *testing.T) {
	kinds := map[string]func() wiretest.Codec{
		"CongestionInfo":              func() wiretest.Codec { return new(CongestionInfo) },
		"CongestionKeyInfo":           func() wiretest.Codec { return new(CongestionKeyInfo) },
		"TimeStamp":                   func() wiretest.Codec { return new(TimeStamp) },
		"SwitchCongestionSetting":     func() wiretest.Codec { return new(SwitchCongestionSetting) },
		"SwitchPortCongestionSetting": func() wiretest.Codec { return new(SwitchPortCongestionSetting) },
		"CACongestionSetting":         func() wiretest.Codec { return new(CACongestionSetting) },
		"CongestionControlTable":      func() wiretest.Codec { return new(CongestionControlTable) },
		"SwitchLog":                   func() wiretest.Codec { return new(SwitchLog) },
		"CALog":                       func() wiretest.Codec { return new(CALog) },
	}
	seen := map[string]bool{}
	entries := wiretest.Read(t, "testdata/libibmad.txt")
	for i := range entries {
		e := &entries[i]
		kind := kinds[e.Name]
		if kind == nil {
			t.Fatalf("line %d: what is %q?", e.Line, e.Name)
		}
		seen[e.Name] = true
		v := kind()
		if err := v.Decode(e.Bytes); err != nil {
			t.Fatalf("line %d: %v", e.Line, err)
		}
		wiretest.Foreign(t, e, v, nil)
	}
	if len(seen) != len(kinds) {
		t.Errorf("%d of %d attributes were compared", len(seen), len(kinds))
	}
}
