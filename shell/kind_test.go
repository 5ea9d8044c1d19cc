package shell

import (
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
)

// TestKindOf: every packet has one kind; packets without a reader are Other.
func TestKindOf(t *testing.T) {
	packet := func(class ib.Class, method ib.Method) *mad.Packet {
		var m ib.MAD
		m[1], m[3] = byte(class), byte(method)
		return &mad.Packet{Data: m[:]}
	}
	failed := func(p *mad.Packet) *mad.Packet { p.Status = mad.Failed; return p }
	ack := packet(ib.ClassSA, ib.MethodGetTable)
	ack.Data[25] = wire.RMPPAck
	for _, c := range []struct {
		what string
		p    *mad.Packet
		want Kind
	}{
		{"nothing", &mad.Packet{}, Other},
		{"half a header", &mad.Packet{Data: packet(ib.ClassSubnLID, ib.MethodGet).Data[:12]}, Other},
		{"an SMP by LID", packet(ib.ClassSubnLID, ib.MethodTrap), SMP},
		{"an SMP by direct route", packet(ib.ClassSubnDR, ib.MethodGetResp), SMP},
		{"one of ours that timed out", failed(packet(ib.ClassSubnDR, ib.MethodGet)), SMP},
		{"for the performance agent", packet(ib.ClassPerf, ib.MethodGet), Other},
		{"another manager's counters", packet(ib.ClassPerf, ib.MethodSet), Other},
		{"counters", packet(ib.ClassPerf, ib.MethodGetResp), Counters},
		{"a request for counters that came back", failed(packet(ib.ClassPerf, ib.MethodGet)), Counters},
		{"for the congestion control agent", packet(ib.ClassCC, ib.MethodSet), Other},
		{"settings", packet(ib.ClassCC, ib.MethodGetResp), Settings},
		{"a request for settings that came back", failed(packet(ib.ClassCC, ib.MethodSet)), Settings},
		{"Get", packet(ib.ClassSA, ib.MethodGet), Query},
		{"GetTable", packet(ib.ClassSA, ib.MethodGetTable), Query},
		{"GetMulti", packet(ib.ClassSA, ib.MethodGetMulti), Query},
		{"Set", packet(ib.ClassSA, ib.MethodSet), Change},
		{"Delete", packet(ib.ClassSA, ib.MethodDelete), Change},
		{"a method that does not exist", packet(ib.ClassSA, 0x7E), Query}, // sa.Answer refuses it
		{"a short request", &mad.Packet{Data: packet(ib.ClassSA, ib.MethodGet).Data[:24]}, Query},
		{"another SA's answer", packet(ib.ClassSA, ib.MethodGetResp), Other},
		{"an acknowledgement of a segment", ack, Other},
		{"ReportResp", packet(ib.ClassSA, ib.MethodReportResp), ReportAnswer},
		{"a Report that came back", failed(packet(ib.ClassSA, ib.MethodReport)), ReportAnswer},
		{"an answer that came back", failed(packet(ib.ClassSA, ib.MethodGetResp)), Returned},
	} {
		if got := KindOf(c.p); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}
