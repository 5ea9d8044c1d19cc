package sm

import (
	"reflect"
	"strings"
	"testing"

	"heddle/sm/config"
)

// TestWired: every part of a manager exists, and has what it needs of others from the beginning.
func TestWired(t *testing.T) {
	c := reflect.ValueOf(New(config.Defaults())).Elem()
	parts := 0
	for i := range c.NumField() {
		f := c.Field(i)
		if f.Kind() != reflect.Pointer || !strings.HasPrefix(f.Type().Elem().PkgPath(), "heddle/sm/") || f.Type().Elem().Kind() != reflect.Struct {
			continue
		}
		name := c.Type().Field(i).Name
		if f.IsNil() {
			if name != "Sweeper" {
				t.Errorf("there is no %s", name)
			}
			continue
		}
		parts++
		needs(t, name, f.Elem())
	}
	if parts < 10 {
		t.Errorf("only %d parts were looked at", parts)
	}
}

// needs reports interfaces of a part that nobody implements. A nil pointer in an interface is
// nobody.
func needs(t *testing.T, name string, v reflect.Value) {
	for i := range v.NumField() {
		f := v.Field(i)
		at := name + "." + v.Type().Field(i).Name
		switch {
		case f.Kind() == reflect.Interface && strings.HasPrefix(f.Type().PkgPath(), "heddle/sm"):
			if f.IsNil() || f.Elem().Kind() == reflect.Pointer && f.Elem().IsNil() {
				t.Errorf("%s: nobody implements it", at)
			}
		case f.Kind() == reflect.Struct && f.Type().Name() == "Needs":
			needs(t, at, f)
		}
	}
}
