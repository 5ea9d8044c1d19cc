package sa_test

import (
	"slices"
	"strings"
	"testing"

	"heddle/sa"
)

func TestParsePrefixRoutes(t *testing.T) {
	got, err := sa.ParsePrefixRoutes(strings.NewReader("# routers\n\nfec0000000000001 0x0002c90300a1b2c3 # to the lab\n0xfec0000000000002 *\n* *\n"), "routes")
	want := []sa.PrefixRoute{{0xFEC0_0000_0000_0001, 0x0002_C903_00A1_B2C3}, {0xFEC0_0000_0000_0002, 0}, {0, 0}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for text, want := range map[string]string{
		"fec0":                              "routes:1: want a subnet prefix",
		"\n1 2 3":                           "routes:2: want a subnet prefix",
		"\n\nfec0 host":                     `routes:3: "host" is neither a 64-bit`,
		"10000000000000000 1":               "routes:1:",
		"1 2\n" + strings.Repeat("x", 5000): "routes:2:",
		strings.Repeat("1 2\n", 4097):       "routes:4097: more than 4096",
	} {
		if r, err := sa.ParsePrefixRoutes(strings.NewReader(text), "routes"); err == nil || r != nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.20q: %v, %v; want %s", text, r, err, want)
		}
	}
}

func FuzzParsePrefixRoutes(f *testing.F) {
	f.Add("fec0000000000001 0x0002c90300a1b2c3 # x\n* *\n")
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := sa.ParsePrefixRoutes(strings.NewReader(text), "x"); err != nil && (r != nil || !strings.HasPrefix(err.Error(), "x:")) {
			t.Errorf("%v, %v", r, err)
		}
	})
}
