package qos

import (
	"fmt"
	"strings"

	"heddle/ib"
)

// ulp reads one rule of the simple form:
//
//	default            : SL
//	sdp|rds|iser|ipoib : SL
//	sdp|rds|iser, port-num RANGES : SL
//	ipoib, pkey RANGES : SL
//	srp, target-port-guid RANGES : SL
//	any, service-id|pkey|target-port-guid|source-port-guid|source-target-port-guid RANGES : SL
func (p *parser) ulp(word string) error {
	r := rawRule{line: p.line}
	name := strings.ToLower(word)
	param := ""
	if name != "default" && p.punct(',') {
		p.skip()
		var err error
		if param, err = p.word(); err != nil {
			return err
		}
	}
	var list []span
	if param != "" {
		var err error
		if param == "pkey" {
			list, err = p.pkeyRanges()
		} else {
			list, err = p.ranges()
		}
		if err != nil {
			return err
		}
	}
	if err := p.ulpRule(&r, name, param, list); err != nil {
		return err
	}
	if !p.follows(':') {
		return p.errorf("%s: want a colon and a service level", word)
	}
	var seen bool
	sl, err := p.one(word, &seen, 0, 15)
	if err != nil {
		return err
	}
	if name == "default" {
		if p.fallback != nil {
			p.warnf(r.line, "default occurs twice; the last one applies")
		}
		p.fallback = &Level{Name: "SimpleQoSLevel_DEFAULT", SL: ib.SL(sl)}
		return nil
	}
	r.level = &simpleLevels[sl]
	p.ulps = append(p.ulps, r)
	return nil
}

// simpleLevels are the levels of qos-ulps: a service level and no limits.
var simpleLevels = func() (l [16]Level) {
	for i := range l {
		l[i] = Level{Name: fmt.Sprintf("SimpleQoSLevel_SL%d", i), SL: ib.SL(i)}
	}
	return l
}()

// ulpRule fills in the service IDs or other properties of a protocol.
func (p *parser) ulpRule(r *rawRule, name, param string, list []span) error {
	one := func(lo, hi uint64) []span { return []span{{lo, hi}} }
	var err error
	switch name + " " + param {
	case "default ":
	case "sdp ":
		r.service = one(serviceSDP, serviceSDP+0xFFFF)
	case "rds ":
		r.service = one(serviceRDS, serviceRDS)
	case "iser ":
		r.service = one(serviceISER, serviceISER)
	case "sdp port-num":
		r.service, err = p.ports(serviceSDP, list)
	case "rds port-num", "iser port-num":
		r.service, err = p.ports(serviceTCP, list)
	case "ipoib ":
		r.pkeys = one(uint64(ib.PKeyDefaultLimited), uint64(ib.PKeyDefaultLimited))
	case "ipoib pkey":
		r.pkeys, err = list, p.checkPKeys(list, true)
	case "any pkey":
		r.pkeys, err = list, p.checkPKeys(list, false)
	case "any service-id":
		r.service = list
	case "srp target-port-guid", "any target-port-guid":
		r.dst = p.guidGroup(list)
	case "any source-port-guid":
		r.src = p.guidGroup(list)
	case "any source-target-port-guid":
		r.src = p.guidGroup(list)
		r.dst = r.src
	default:
		const want = "default, sdp, rds, iser, ipoib, srp, any"
		switch name {
		case "sdp", "rds", "iser":
			return p.errorf("%s takes port-num, not %q", name, param)
		case "ipoib":
			return p.errorf("ipoib takes pkey, not %q", param)
		case "srp":
			return p.errorf("srp needs a target-port-guid")
		case "any":
			return p.errorf("any needs service-id, pkey, target-port-guid, source-port-guid or source-target-port-guid")
		}
		return p.unknown(name, "qos-ulps", want)
	}
	return err
}

// ports are service IDs by TCP port number.
func (p *parser) ports(base uint64, list []span) ([]span, error) {
	for i, s := range list {
		if s.hi > 0xFFFF {
			return nil, p.errorf("port-num: %d is out of range (want 0 to 65535)", s.hi)
		}
		list[i] = span{base + s.lo, base + s.hi}
	}
	return list, nil
}

// guidGroup is a new group without a name.
func (p *parser) guidGroup(list []span) []int32 {
	p.groups = append(p.groups, rawGroup{group: group{guids: list}, line: p.line})
	return []int32{int32(len(p.groups) - 1)}
}
