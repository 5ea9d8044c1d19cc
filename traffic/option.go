package traffic

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options are the keys of a pattern, and how their values are written.
var options = [...][2]string{
	{"rate", "share of the link (0.8 or 80%) or rate (25Gbps) that a host offers; default 1"},
	{"start", "time of the first packet; default 0"},
	{"end", "time after which none is made; default: the end of the run"},
	{"source", "poisson, constant, onoff:ON/OFF (mean times), closed:PACKETS, saturated; default poisson"},
	{"queue", "lane, destination, host (excess is lost) or stream (the source waits); default lane"},
	{"payload", "bytes of a packet, 1 to 4096; default 2048"},
	{"sl", "service level, 0 to 15; default: that of the path"},
	{"hosts", "only hosts of these names, with wildcards: gpu-*|login-1"},
}

// OptionUsage lists the keys of a pattern, and what each means.
func OptionUsage() [][2]string { return options[:] }

// option reads KEY=VALUE.
func (p *parser) option(at int, part string) error {
	key, value, ok := strings.Cut(part, "=")
	var names []string
	for _, o := range options {
		names = append(names, o[0])
	}
	switch {
	case !slices.Contains(names, key):
		return p.fail(at, part, "unknown option; possible are %s", strings.Join(names, ", "))
	case !ok || value == "":
		return p.fail(at, part, "%s needs a value: %s=VALUE", key, key)
	case p.keys[key]:
		return p.fail(at, part, "%s is given twice", key)
	}
	p.keys[key] = true
	at += len(key) + 1
	s := p.s
	var err error
	switch key {
	case "rate":
		return p.rate(at, value)
	case "start":
		s.Start, err = p.time(at, value, true)
	case "end":
		s.End, err = p.time(at, value, false)
	case "source":
		return p.source(at, value)
	case "queue":
		q := slices.Index(queueNames[:], value)
		if q < 0 {
			return p.fail(at, value, "want one of %s", strings.Join(queueNames[:], ", "))
		}
		s.Queue = Queue(q)
	case "payload":
		if s.Payload, err = strconv.Atoi(value); err != nil || s.Payload < 1 || s.Payload > 4096 {
			return p.fail(at, value, "want 1 to 4096 bytes")
		}
	case "sl":
		if s.SL, err = strconv.Atoi(value); err != nil || s.SL < 0 || s.SL > 15 {
			return p.fail(at, value, "want a service level from 0 to 15")
		}
	case "hosts":
		s.Choose = strings.Split(value, "|")
		for _, glob := range s.Choose {
			if _, err := path.Match(glob, ""); err != nil || glob == "" {
				return p.fail(at, value, "want names with * and ?, separated by |")
			}
		}
	}
	return err
}

// rate reads 0.8, 80% or 25Gbps.
func (p *parser) rate(at int, value string) error {
	if digits, ok := strings.CutSuffix(value, "Gbps"); ok {
		v, ok := positive(digits)
		if !ok {
			return p.fail(at, value, "want a rate above 0, such as 25Gbps")
		}
		p.s.Rate = Rate{Gbps: v}
		return nil
	}
	digits, percent := strings.CutSuffix(value, "%")
	v, ok := positive(digits)
	if percent {
		v /= 100
	}
	if !ok || v > 1 {
		return p.fail(at, value, "want a share of the link above 0 and at most 1 (0.8 or 80%%), or a rate (25Gbps)")
	}
	p.s.Rate = Rate{Share: v}
	return nil
}

// maxTime bounds times in a pattern: the simulator's time lasts for 106 days.
const maxTime = 24 * time.Hour

func (p *parser) time(at int, value string, zero bool) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 || d > maxTime || d == 0 && !zero {
		return 0, p.fail(at, value, "want a time up to 24h with its unit, such as 200us or 1.5ms")
	}
	return d, nil
}

// source reads a kind of source.
func (p *parser) source(at int, value string) (err error) {
	s := p.s
	name, arg, given := strings.Cut(value, ":")
	kind := slices.Index(arrivalNames[:], name)
	if kind < 0 {
		return p.fail(at, value, "want one of %s", strings.Join(arrivalNames[:], ", "))
	}
	s.Arrival = Arrival(kind)
	at += len(name) + 1
	switch s.Arrival {
	case OnOff:
		on, off, ok := strings.Cut(arg, "/")
		if !ok {
			return p.fail(at-len(name)-1, value, "want onoff:ON/OFF, mean times of bursts and silences: onoff:50us/150us")
		}
		if s.On, err = p.time(at, on, false); err != nil {
			return err
		}
		s.Off, err = p.time(at+len(on)+1, off, false)
		return err
	case Closed:
		if s.Window, err = strconv.Atoi(arg); err != nil || s.Window < 1 || s.Window > 1<<20 {
			return p.fail(at-len(name)-1, value, "want closed:PACKETS, the packets under way at once: closed:16")
		}
	default:
		if given {
			return p.fail(at, arg, "%s takes no argument", name)
		}
	}
	return nil
}
