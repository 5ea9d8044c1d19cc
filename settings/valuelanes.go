package settings

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/sm"
)

// notGiven is the text of what is not given.
const notGiven = "none"

// byClass is a value for all classes of ports, and others for some: "VALUE; CLASS=VALUE; …".
type byClass struct {
	get  func(*sm.Lanes) string // not empty
	put  func(l *sm.Lanes, text string) error
	want string // what one value is
}

func (b byClass) kind() string { return "text" }

func (b byClass) set(c *Config, text string) error {
	lanes := c.SM.Lanes
	for i := range lanes {
		if err := b.put(&lanes[i], notGiven); err != nil {
			return err
		}
	}
	for n, item := range strings.Split(text, ";") {
		name, value, one := strings.Cut(item, "=")
		name = strings.TrimSpace(name)
		if !one {
			name, value = "", item
		}
		if name == "" && n > 0 {
			return fmt.Errorf("%q: want CLASS=VALUE behind the first ';', of classes ca, sw0, swe and rtr", strings.TrimSpace(item))
		}
		found := false
		for i := range lanes {
			if name == "" || name == sm.PortClass(i).String() {
				found = true
				if err := b.put(&lanes[i], strings.TrimSpace(value)); err != nil {
					return err
				}
			}
		}
		if !found {
			return fmt.Errorf("there is no class of ports %q: want ca, sw0, swe or rtr", name)
		}
	}
	c.SM.Lanes = lanes
	return nil
}

func (b byClass) text(c *Config) string {
	var parts []string
	same := true
	for i := range c.SM.Lanes {
		v := b.get(&c.SM.Lanes[i])
		same = same && v == b.get(&c.SM.Lanes[0])
		if v != notGiven {
			parts = append(parts, sm.PortClass(i).String()+"="+v)
		}
	}
	if same {
		return b.get(&c.SM.Lanes[0])
	}
	return strings.Join(parts, "; ")
}

func (b byClass) wanted() string {
	return b.want + ", or none; for all ports, or CLASS=VALUE, separated by ';', for the classes ca, sw0, swe and rtr"
}
func (b byClass) brief(string) string { return b.want + ", by class of port" }
func (b byClass) words() []string     { return []string{notGiven} }

// numbers reads a list with commas.
func numbers(text, separator string, most int, each func(item string) error) error {
	items := strings.Split(text, separator)
	if len(items) > most {
		return fmt.Errorf("there are %d values, %d are allowed", len(items), most)
	}
	for _, item := range items {
		if err := each(strings.TrimSpace(item)); err != nil {
			return err
		}
	}
	return nil
}

// Lanes by service level.
var levelLanes = byClass{
	want: "lanes of the service levels 0, 1, …, 0 to 15 each, with commas",
	get: func(l *sm.Lanes) string {
		if l.SLtoVL == nil {
			return notGiven
		}
		var parts []string
		for _, vl := range l.SLtoVL {
			parts = append(parts, strconv.Itoa(int(vl)))
		}
		return strings.Join(parts, ",")
	},
	put: func(l *sm.Lanes, text string) error {
		if l.SLtoVL = nil; text == notGiven {
			return nil
		}
		var t smp.SLtoVL
		sl := 0
		err := numbers(text, ",", len(t), func(item string) error {
			v, err := strconv.ParseUint(item, 0, 8)
			if err != nil || v > 15 {
				return errRange
			}
			t[sl] = ib.VL(v)
			sl++
			return nil
		})
		l.SLtoVL = &t
		return err
	},
}

// arbitration is an arbitration table.
func arbitration(at func(*sm.Lanes) *[]smp.VLArbEntry) byClass {
	return byClass{
		want: "VL:WEIGHT, 0 to 14 and 0 to 255, at most 64, with commas",
		get: func(l *sm.Lanes) string {
			list := *at(l)
			if list == nil {
				return notGiven
			}
			var parts []string
			for _, e := range list {
				parts = append(parts, fmt.Sprintf("%d:%d", e.VL, e.Weight))
			}
			return strings.Join(parts, ",")
		},
		put: func(l *sm.Lanes, text string) error {
			if *at(l) = nil; text == notGiven {
				return nil
			}
			var list []smp.VLArbEntry
			err := numbers(text, ",", 64, func(item string) error {
				vl, weight, ok := strings.Cut(item, ":")
				v, err := strconv.ParseUint(strings.TrimSpace(vl), 0, 8)
				w, err2 := strconv.ParseUint(strings.TrimSpace(weight), 0, 8)
				if !ok || errors.Join(err, err2) != nil || v > 14 {
					return errRange
				}
				list = append(list, smp.VLArbEntry{VL: ib.VL(v), Weight: uint8(w)})
				return nil
			})
			*at(l) = list
			return err
		},
	}
}

// highLimit is how much may leave by the high table before a packet of the low one.
var highLimit = byClass{
	want: "0 to 255",
	get: func(l *sm.Lanes) string {
		if l.HighLimit == nil {
			return notGiven
		}
		return strconv.Itoa(int(*l.HighLimit))
	},
	put: func(l *sm.Lanes, text string) error {
		if l.HighLimit = nil; text == notGiven {
			return nil
		}
		v, err := strconv.ParseUint(text, 0, 8)
		if err != nil {
			return errRange
		}
		n := uint8(v)
		l.HighLimit = &n
		return nil
	},
}
