package sm

import (
	"reflect"
	"testing"

	"heddle/sm/config"
)

// TestPartsAreConnected: no part of a new manager lacks another one that it needs. New makes the
// parts one after the other, so a part that is passed on before it is made would be nil.
func TestPartsAreConnected(t *testing.T) {
	c := reflect.ValueOf(New(config.Defaults())).Elem()
	found := 0
	for _, part := range c.Fields() {
		if part.Kind() != reflect.Pointer || part.Type().Elem().Kind() != reflect.Struct || part.IsNil() {
			continue
		}
		part = part.Elem()
		for k := range part.NumField() {
			name := part.Type().String() + "." + part.Type().Field(k).Name
			switch f := part.Field(k); f.Kind() {
			case reflect.Interface:
				if f.Type() != reflect.TypeFor[error]() {
					found++
					notNil(t, name, f)
				}
			case reflect.Struct:
				for j := range f.NumField() {
					if f.Field(j).Kind() == reflect.Interface {
						found++
						notNil(t, name+"."+f.Type().Field(j).Name, f.Field(j))
					}
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("%d interfaces of parts were looked at; the parts have more", found)
	}
}

// notNil reports an interface that is nil, or has a nil pointer in it.
func notNil(t *testing.T, name string, v reflect.Value) {
	t.Helper()
	if v.IsNil() || v.Elem().Kind() == reflect.Pointer && v.Elem().IsNil() {
		t.Errorf("%s is nil", name)
	}
}
