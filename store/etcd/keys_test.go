package etcd

import "testing"

// TestKeysSort: the pieces of an entry are between it and the next one.
func TestKeysSort(t *testing.T) {
	k := keys{"/p"}
	list := []string{
		k.head(), k.journal(), k.entry(0), k.entry(9), k.piece(9, 1), k.piece(9, 16), k.pieces(9), k.entry(10),
		k.piece(10, 1), k.entry(1 << 63), k.journalEnd(),
	}
	list = append(list[1:], list[0])
	for i := range len(list) - 1 {
		if list[i] >= list[i+1] {
			t.Errorf("%q is not before %q", list[i], list[i+1])
		}
	}
	ids := []string{k.head(), k.snapshots(), k.snapshot("aa"), k.snapshotPiece("aa", 3), k.snapshotEnd("aa"), k.snapshot("ab"), k.snapshotsEnd(), k.term()}
	for i := range len(ids) - 1 {
		if ids[i] >= ids[i+1] {
			t.Errorf("%q is not before %q", ids[i], ids[i+1])
		}
	}
}

// FuzzKeys: what is parsed is written the same.
func FuzzKeys(f *testing.F) {
	k := keys{"/p"}
	f.Add(k.entry(17))
	f.Add(k.piece(17, 3))
	f.Add("/p/journal/000000000000000A")
	f.Add("/p/journal/0000000000000001.00000000")
	f.Fuzz(func(t *testing.T, key string) {
		n, p, ok := k.parseEntry(key)
		if !ok {
			return
		}
		again := k.entry(n)
		if p != 0 {
			again = k.piece(n, p)
		}
		if again != key {
			t.Fatalf("%q became %q", key, again)
		}
	})
}

// FuzzValues: what the decoders of term and snapshot accept, they accept again.
func FuzzValues(f *testing.F) {
	f.Add([]byte(encode(termValue{Version: 1, Claim: "00ff", Name: "host", GUID: 7})))
	f.Add([]byte(encode(snapshotHead{Version: 1, ID: "00ff", Term: 3, Owner: 9, Number: 40, Length: 1 << 21})))
	f.Add([]byte(`{"version":1,"guid":"0x0002c90300a1b2c3","released":true}`))
	f.Add([]byte(`{"version":2}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, err := decodeTerm(b); err == nil {
			if again, err := decodeTerm([]byte(encode(v))); err != nil || again != v {
				t.Fatalf("%+v became %+v, %v", v, again, err)
			}
		}
		if h, err := decodeHead(b); err == nil {
			if again, err := decodeHead([]byte(encode(h))); err != nil || again != h {
				t.Fatalf("%+v became %+v, %v", h, again, err)
			}
			if n := h.pieces(); n < 1 || (n-1)*pieceLen >= h.Length || n*pieceLen < h.Length {
				t.Fatalf("%d pieces of %d bytes", n, h.Length)
			}
		}
	})
}
