package ib

import "strconv"

// Rate is a rate code of subnet administration, 6 bits. Codes are not ordered
// by speed: compare with Cmp, or with Order where the SA's selectors do.
type Rate uint8

// The rate codes (IBA §15.2.5.16), named by Gb/s.
const (
	Rate2p5  Rate = 2
	Rate10   Rate = 3
	Rate30   Rate = 4
	Rate5    Rate = 5
	Rate20   Rate = 6
	Rate40   Rate = 7
	Rate60   Rate = 8
	Rate80   Rate = 9
	Rate120  Rate = 10
	Rate14   Rate = 11
	Rate56   Rate = 12
	Rate112  Rate = 13
	Rate168  Rate = 14
	Rate25   Rate = 15
	Rate100  Rate = 16
	Rate200  Rate = 17
	Rate300  Rate = 18
	Rate28   Rate = 19
	Rate50   Rate = 20
	Rate400  Rate = 21
	Rate600  Rate = 22
	Rate800  Rate = 23
	Rate1200 Rate = 24
	Rate1600 Rate = 25
	Rate2400 Rate = 26
)

const numRates = 27

// rateTenths is the nominal rate by code, in tenths of a Gb/s.
var rateTenths = [numRates]uint16{
	Rate2p5: 25, Rate10: 100, Rate30: 300, Rate5: 50, Rate20: 200, Rate40: 400, Rate60: 600, Rate80: 800,
	Rate120: 1200, Rate14: 140, Rate56: 560, Rate112: 1120, Rate168: 1680, Rate25: 250, Rate100: 1000,
	Rate200: 2000, Rate300: 3000, Rate28: 280, Rate50: 500, Rate400: 4000, Rate600: 6000, Rate800: 8000,
	Rate1200: 12000, Rate1600: 16000, Rate2400: 24000,
}

// ratesByNet is the order in which the SA's selectors compare rates: by net
// data rate, so that 30 and 60 Gb/s of 8b/10b links come before 25 and 50.
var ratesByNet = [...]Rate{
	Rate2p5, Rate5, Rate10, Rate14, Rate20, Rate30, Rate25, Rate28, Rate40, Rate60, Rate50, Rate56, Rate80,
	Rate120, Rate100, Rate112, Rate168, Rate200, Rate300, Rate400, Rate600, Rate800, Rate1200, Rate1600, Rate2400,
}

var rateOrder = func() (o [numRates]uint8) {
	for i, r := range ratesByNet {
		o[r] = uint8(i + 1)
	}
	return o
}()

// rateOf by speed and width index (1x 2x 4x 8x 12x).
var rateOf = [numSpeeds][5]Rate{
	SpeedSDR:   {Rate2p5, Rate5, Rate10, Rate20, Rate30},
	SpeedDDR:   {Rate5, Rate10, Rate20, Rate40, Rate60},
	SpeedQDR:   {Rate10, Rate20, Rate40, Rate80, Rate120},
	SpeedFDR10: {Rate10, Rate20, Rate40, Rate80, Rate120},
	SpeedFDR:   {Rate14, Rate28, Rate56, Rate112, Rate168},
	SpeedEDR:   {Rate25, Rate50, Rate100, Rate200, Rate300},
	SpeedHDR:   {Rate50, Rate100, Rate200, Rate400, Rate600},
	SpeedNDR:   {Rate100, Rate200, Rate400, Rate800, Rate1200},
	SpeedXDR:   {Rate200, Rate400, Rate800, Rate1600, Rate2400},
}

// RateOf is the rate code of a link; 0 if width is not a single width or
// speed is none.
func RateOf(width LinkWidth, speed LinkSpeed) Rate {
	if speed >= numSpeeds {
		return 0
	}
	r := &rateOf[speed]
	switch width {
	case Width1x:
		return r[0]
	case Width2x:
		return r[1]
	case Width4x:
		return r[2]
	case Width8x:
		return r[3]
	case Width12x:
		return r[4]
	}
	return 0
}

// Valid reports whether r is a defined code.
func (r Rate) Valid() bool { return r < numRates && rateTenths[r] != 0 }

// Gbps is the nominal rate in Gb/s, 0 for a code that is not defined.
func (r Rate) Gbps() float64 {
	if r >= numRates {
		return 0
	}
	return float64(rateTenths[r]) / 10
}

// Cmp compares by nominal Gb/s; codes that are not defined count as 0.
func (r Rate) Cmp(s Rate) int {
	a, b := r.Gbps(), s.Gbps()
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// MinRate is the slower of the two.
func MinRate(r, s Rate) Rate {
	if s.Cmp(r) < 0 {
		return s
	}
	return r
}

// Order is the place of r, from 1, in the SA's ascending order of rates (by
// net data rate); 0 for a code that is not defined.
func (r Rate) Order() int {
	if r >= numRates {
		return 0
	}
	return int(rateOrder[r])
}

// Slower is the rate before r in the SA's order, 0 if there is none.
func (r Rate) Slower() Rate {
	if o := r.Order(); o > 1 {
		return ratesByNet[o-2]
	}
	return 0
}

// String prints "100 Gb/s".
func (r Rate) String() string {
	if !r.Valid() {
		return "rate code " + strconv.Itoa(int(r))
	}
	t := rateTenths[r]
	s := strconv.Itoa(int(t / 10))
	if t%10 != 0 {
		s += "." + strconv.Itoa(int(t%10))
	}
	return s + " Gb/s"
}
