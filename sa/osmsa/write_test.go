package osmsa_test

import (
	"bytes"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"heddle/sa/osmsa"
	"heddle/store"
)

// TestWrite: what OpenSM wrote is read, written and read again: the same records, and lines in
// OpenSM's form.
func TestWrite(t *testing.T) {
	text, err := os.ReadFile("testdata/opensm-sa.dump")
	if err != nil {
		t.Fatal(err)
	}
	recs, _, err := osmsa.Read(bytes.NewReader(text), "opensm-sa.dump", written)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	left, err := osmsa.Write(&b, recs, []store.LIDEntry{{GUID: 0x100003, LID: 5}}, written)
	if err != nil || len(left) > 0 {
		t.Fatal(left, err)
	}
	again, warnings, err := osmsa.Read(&b, "again", written)
	if err != nil || len(warnings) > 0 {
		t.Fatal(warnings, err)
	}
	if !reflect.DeepEqual(view(t, again, written), view(t, recs, written)) {
		t.Error("the records are not the same")
	}
	b.Reset()
	if _, err := osmsa.Write(&b, recs, []store.LIDEntry{{GUID: 0x100003, LID: 5}}, written); err != nil {
		t.Fatal(err)
	}
	// What Heddle does not keep: who created a group, and empty blocks of GUIDs.
	if d := cmp.Diff(forms(string(text)), forms(b.String())); d != "" {
		t.Error(d)
	}
	if !strings.Contains(b.String(), " lid=0x0005 block_num=0x0 guid0=0x0000000000100003 guid1=0x0014050000000001 ") {
		t.Errorf("no alias GUIDs in\n%s", b.String())
	}
}

// forms are the lines of a dump without their values, each form once.
func forms(dump string) map[string]bool {
	m := map[string]bool{}
	for line := range strings.Lines(dump) {
		var form []string
		for f := range strings.FieldsSeq(line) {
			name, _, _ := strings.Cut(f, "=")
			form = append(form, strings.TrimRight(name, "0123456789abcdef"))
		}
		if strings.Contains(line, "name='") {
			form = form[:3]
		}
		if len(form) > 0 {
			m[strings.Join(form, " ")] = true
		}
	}
	return m
}

// TestWriteDamaged: a record that cannot be read is named and left out.
func TestWriteDamaged(t *testing.T) {
	var b bytes.Buffer
	left, err := osmsa.Write(&b, []store.Record{{Table: store.TableServices, Key: []byte{1}, Value: []byte{2}}, {Table: store.TableAliases, Key: []byte{1}, Value: []byte{2}}}, nil, written)
	if err != nil || len(left) != 2 || b.Len() != 0 {
		t.Errorf("%q, %v, %q", left, err, b.String())
	}
}
