package opensm

import (
	"strconv"
	"strings"

	"heddle/settings"
)

// qosDefaults are OpenSM's values with qos TRUE where neither the class nor the common option has one.
var qosDefaults = map[string]string{
	"high_limit": "0",
	"vlarb_high": "0:4,1:0,2:0,3:0,4:0,5:0,6:0,7:0,8:0,9:0,10:0,11:0,12:0,13:0,14:0",
	"vlarb_low":  "0:0,1:4,2:4,3:4,4:4,5:4,6:4,7:4,8:4,9:4,10:4,11:4,12:4,13:4,14:4",
	"sl2vl":      "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7",
}

// takeQoS takes over one of the tables of a class of ports. One setting has those of all classes: the
// option without a class sets it, with what OpenSM makes of each class.
func takeQoS(class, name, setting string) func(*taking) {
	return func(x *taking) {
		switch {
		case !x.Conf.Get("qos").True():
			if x.given() {
				x.unneeded("OpenSM does not use it, as qos is FALSE")
			}
		case class != "":
			if x.given() {
				x.unneeded("qos_%s has it", name)
			}
		default:
			var parts []string
			for _, c := range qosClasses[1:] {
				parts = append(parts, strings.TrimSuffix(c, "_")+"="+x.Conf.qosValue(c, name))
			}
			x.set(setting, strings.Join(parts, "; "))
		}
	}
}

// qosValue is what OpenSM has for a class: its own value, the common one, or the default.
func (c *Conf) qosValue(class, name string) string {
	for _, option := range []string{"qos_" + class + name, "qos_" + name} {
		v := c.Get(option)
		if name == "high_limit" {
			if n := int64(v.Number); n >= 0 {
				return strconv.FormatInt(n, 10)
			}
		} else if v.IsSet() && v.Text != "" {
			return v.Text
		}
	}
	return qosDefaults[name]
}

// qosFrom is the value of an option of a class by the settings, for an export.
func qosFrom(class, setting string) func(*settings.Config) string {
	return func(c *settings.Config) string {
		text := (&settings.Values{Config: *c}).Text(setting)
		if !c.SM.QoS || text == "none" {
			return ""
		}
		for item := range strings.SplitSeq(text, "; ") {
			name, value, one := strings.Cut(item, "=")
			if !one {
				return item // of all classes
			}
			if name == class {
				return value
			}
		}
		return ""
	}
}

func init() {
	for _, name := range []string{"high_limit", "vlarb_high", "vlarb_low", "sl2vl"} {
		special["qos_"+name] = none
		for _, c := range qosClasses[1:] {
			special["qos_"+c+name] = qosFrom(strings.TrimSuffix(c, "_"), "qos-"+strings.ReplaceAll(name, "_", "-"))
		}
	}
}
