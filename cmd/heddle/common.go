package main

import (
	"log/slog"
	"os"

	"heddle/replica/wire"
	"heddle/settings"
)

// common are the settings of a command that all managers of the subnet should have alike, with the contents of files as
// they are now.
func (f smFlags) common(command string, log *slog.Logger) (list []wire.Setting) {
	for _, s := range settings.Of(command) {
		if !s.Common() {
			continue
		}
		value, err := f.CommonValue(s, os.ReadFile)
		if err != nil {
			log.Warn("a setting is not compared with that of other managers", "setting", s.Name, "err", err)
			continue
		}
		list = append(list, wire.Setting{Name: s.Name, Value: value})
	}
	return list
}
