package pm

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

// TestVPortCountersLayout: every counter at its place.
func TestVPortCountersLayout(t *testing.T) {
	c := VPortCountersExtended{
		PortSelect: 1, CounterSelect: SelVPortAll, VPortIndex: 0x0203,
		PortXmitData: 0x10, PortRcvData: 0x11, PortXmitPkts: 0x12, PortRcvPkts: 0x13, PortUnicastXmitPkts: 0x14,
		PortUnicastRcvPkts: 0x15, PortMulticastXmitPkts: 0x16, PortMulticastRcvPkts: 0x17, PortRelayErrors: 0x18,
	}
	var text strings.Builder
	text.WriteString("00 01 01ff 0203 0000")
	for _, v := range []string{"10", "11", "12", "13", "14", "15", "16", "17", "18"} {
		text.WriteString(strings.Repeat("00", 7) + v)
	}
	want, err := hex.DecodeString(strings.ReplaceAll(text.String(), " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	got := bytes.Repeat([]byte{0xFF}, VPortCountersExtendedLen)
	c.Put(got)
	if !bytes.Equal(got, want) {
		t.Errorf("%x, want\n%x", got, want)
	}
	var back VPortCountersExtended
	if err := back.Decode(want); err != nil || back != c {
		t.Errorf("%v, %+v", err, back)
	}
}
