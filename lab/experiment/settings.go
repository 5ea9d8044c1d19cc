package experiment

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"heddle/lab"
	"heddle/report"
	"heddle/route"
	"heddle/sm"
)

// setting is a parameter that an experiment sets.
type setting struct{ name, value, otherwise, why string }

// settingsSection lists parameters, with what they are otherwise.
func settingsSection(list []setting) report.Section {
	s := report.Section{
		Title: "Settings that are not the default",
		Text:  "Everything else is as the product has it.",
		Table: report.Table{Columns: []string{"setting", "here", "default", "why"}},
	}
	for _, x := range list {
		s.Table.Rows = append(s.Table.Rows, []any{x.name, x.value, x.otherwise, x.why})
	}
	return s
}

// lifetimes are fields that hold a time as a code: 4.096 µs × 2^n.
var lifetimes = map[string]bool{"SubnetTimeOut": true, "PacketLife": true, "HOQLife": true, "LeafHOQLife": true}

// off are fields whose 0 turns off what they bound.
var off = map[string]bool{"SweepInterval": true, "DampHold": true, "ImproveDelay": true, "FullInterval": true}

// deviations are the fields of c that are not the product's, whatever they are:
// none is forgotten that the configuration has. Why says for some what for.
func deviations(c sm.Config, why map[string]string) (list []setting) {
	got, want := c, sm.Defaults()
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range g.NumField() {
		name := g.Type().Field(i).Name
		a, b := g.Field(i).Interface(), w.Field(i).Interface()
		switch {
		case name == "Engines":
			list = append(list, setting{"Engines", engineNames(got.Engines), engineNames(lab.AutoChain()), why[name]})
		case !reflect.DeepEqual(a, b):
			list = append(list, setting{name, shown(name, a), shown(name, b), why[name]})
		}
	}
	return list
}

func engineNames(engines []route.Engine) string {
	var names []string
	for _, e := range engines {
		names = append(names, e.Name())
	}
	return strings.Join(names, ", ")
}

// shown is a field's value as people read it.
func shown(name string, v any) string {
	if code, ok := v.(uint8); ok && lifetimes[name] {
		d := 4096 * time.Nanosecond << code
		return fmt.Sprintf("%v (code %d)", d.Round(10*time.Microsecond), code)
	}
	if off[name] && reflect.ValueOf(v).IsZero() {
		return "off"
	}
	return fmt.Sprint(v)
}
