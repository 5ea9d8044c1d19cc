package acm

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(string(bytes.Join(bytes.Fields([]byte(s)), nil)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestQuestion: the requests of the programs that there are.
func TestQuestion(t *testing.T) {
	src, dst := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	path := Endpoint{Type: TypePath}
	r := wire.PathRecord{SLID: 3, DLID: 9, Reversible: true, NumbPath: 1}
	r.Put(path.Info[:])
	withGIDs := Endpoint{Type: TypePath}
	r = wire.PathRecord{SGID: ib.MakeGID(1, 2), DGID: ib.MakeGID(1, 3), PKey: 0x8001, SL: 2}
	r.Put(withGIDs.Info[:])
	empty := Endpoint{Type: TypePath}
	name := Endpoint{Type: TypeName, Flags: FlagDest}
	copy(name.Info[:], "host-2")
	for what, c := range map[string]struct {
		eps   []Endpoint
		st    Status
		path  bool
		mask  wire.CompMask
		flags uint32
		from  bool
	}{
		"librdmacm":                {[]Endpoint{AddressEndpoint(src, FlagSource), AddressEndpoint(dst, FlagDest|FlagNoDelay)}, OK, false, 0, FlagNoDelay, true},
		"librdmacm, no source":     {[]Endpoint{AddressEndpoint(dst, FlagDest)}, OK, false, 0, 0, false},
		"librdmacm, AF_IB":         {[]Endpoint{AddressEndpoint(dst, FlagDest), withGIDs}, OK, true, wire.PathCompSGID | wire.PathCompDGID | wire.PathCompPKey | wire.PathCompSL, 0, false},
		"librdmacm, no hint":       {[]Endpoint{AddressEndpoint(dst, FlagDest), empty}, OK, false, 0, 0, false},
		"ib_acme -f l":             {[]Endpoint{path}, OK, true, wire.PathCompSLID | wire.PathCompDLID | wire.PathCompReversible, 0, false},
		"ib_acme -f n":             {[]Endpoint{name}, OK, false, 0, 0, false},
		"nothing":                  {nil, Invalid, false, 0, 0, false},
		"no destination":           {[]Endpoint{AddressEndpoint(src, FlagSource)}, Invalid, false, 0, 0, true},
		"two destinations":         {[]Endpoint{name, name}, Invalid, false, 0, 0, false},
		"an empty path":            {[]Endpoint{empty}, Invalid, false, 0, 0, false},
		"an unknown type":          {[]Endpoint{{Type: 7, Flags: FlagDest}}, BadDestType, false, 0, 0, false},
		"an unknown source's type": {[]Endpoint{{Type: 7, Flags: FlagSource}, name}, BadSrcType, false, 0, 0, true},
	} {
		b := Append(nil, Header{Op: Resolve, TID: 77}, c.eps...)
		req, err := Decode(b)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		q, st := req.Question()
		if st != c.st || st == OK && (q.Path != c.path || q.Mask != c.mask && c.path || q.Flags != c.flags || (q.Source != nil) != c.from) {
			t.Errorf("%s: %+v, status %d", what, q, st)
		}
		if again := Append(nil, req.Header, req.Endpoints...); !bytes.Equal(again, b) {
			t.Errorf("%s: encoded again\n% x, was\n% x", what, again, b)
		}
	}
}

// TestMalformed: the service closes the connection.
func TestMalformed(t *testing.T) {
	good := Append(nil, Header{Op: Resolve}, Endpoint{Type: TypePath})
	for what, b := range map[string][]byte{
		"short":         good[:15],
		"version":       append([]byte{2}, good[1:]...),
		"length":        good[:len(good)-1],
		"odd length":    append(append([]byte{}, good...), 0),
		"nine records":  Append(nil, Header{Op: Resolve}, make([]Endpoint, 9)...),
		"swapped order": unhex(t, "01 02 00 000000 1000 0000000000000000"),
	} {
		if _, err := Decode(b); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

// TestQueryAnswers: the bytes of the answers to PERF_QUERY and EP_QUERY.
func TestQueryAnswers(t *testing.T) {
	r := Request{Header: Header{Op: PerfQuery, TID: 0x0102030405060708}}
	b := AppendCounters(nil, &r, Counters{1, 2, 3, 4, 5, 6, 7})
	if len(b) != 72 || b[1] != 0x82 || b[3] != 7 || b[6] != 0 || b[7] != 72 || b[23] != 1 || b[71] != 7 {
		t.Errorf("% x", b)
	}
	r.Op, r.Data = EPQuery, [3]uint8{1, 1, 0}
	b = AppendEP(nil, &r, &EP{NodeGUID: 0x1122, Port: 1, Ports: 2, PKey: 0xFFFF, Provider: "heddle", Addresses: []string{"10.0.0.1", "a"}})
	if want := 16 + 16 + 64*3; len(b) != want || int(b[6])<<8|int(b[7]) != want || b[23] != 0x22 || b[24] != 1 || b[25] != 2 || b[28] != 0xFF || b[31] != 2 ||
		string(b[32:39]) != "heddle\x00" || string(b[96:105]) != "10.0.0.1\x00" {
		t.Errorf("% x", b)
	}
}

// FuzzRequest: hostile bytes are refused or mean what they say when they are encoded again.
func FuzzRequest(f *testing.F) {
	f.Add(Append(nil, Header{Op: Resolve}, AddressEndpoint(netip.MustParseAddr("10.0.0.1"), FlagDest)))
	f.Add(Append(nil, Header{Op: PerfQuery}))
	f.Add(Append(nil, Header{Op: EPQuery, Data: [3]uint8{1, 1, 0}}))
	f.Add([]byte{1, 1, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Decode(b)
		if err != nil {
			return
		}
		q, st := r.Question()
		if st == OK && !q.Path && q.Dest == nil {
			t.Fatalf("%+v has no destination", q)
		}
		if q.Dest != nil {
			q.Dest.Name()
			q.Dest.Address()
		}
		again, err := Decode(Append(nil, r.Header, r.Endpoints...))
		if err != nil || len(again.Endpoints) != len(r.Endpoints) {
			t.Fatalf("%v: %+v, was %+v", err, again, r)
		}
	})
}
