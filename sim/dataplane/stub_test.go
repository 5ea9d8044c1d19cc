package dataplane

var faultCases, programCases []vcase
