package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// errNegative refuses a number or time below 0.
var errNegative = errors.New("it must be 0 or more")

// mayBeNegative are the flags that have a meaning below 0, by command and name.
var mayBeNegative = map[string]bool{
	"heddle lab run losses": true, // -1: none
}

// notNegative is the value of a flag that refuses what is below 0. Commands take 0 for "no end" or
// "all"; a negative number, which is a mistake, would otherwise mean the same.
type notNegative struct{ pflag.Value }

func (v notNegative) Set(s string) error {
	was := v.String()
	if err := v.Value.Set(s); err != nil {
		return err
	}
	if text := v.String(); strings.HasPrefix(text, "-") && strings.ContainsAny(text, "123456789I") { // -0 is 0, -Inf is none
		return errors.Join(errNegative, v.Value.Set(was))
	}
	return nil
}

// refuseNegative lets the flags of a command with numbers and times refuse what is below 0.
func refuseNegative(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		switch f.Value.Type() {
		case "duration", "int", "float64":
			if _, ok := f.Value.(notNegative); !ok && asSetting(f) == nil && !mayBeNegative[c.CommandPath()+" "+f.Name] {
				f.Value = notNegative{f.Value}
			}
		}
	})
}
