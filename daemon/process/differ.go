package process

import (
	"strings"
	"time"

	"heddle/api"
	"heddle/daemon/eventlog"
)

// Differing returns what adds to events that settings of this manager and of another one differ, or no longer do. names
// are those of the settings, and the log is not told of them.
func Differing(events *eventlog.Log) func(address string, names []string) {
	return func(address string, names []string) {
		if events == nil {
			return
		}
		e := api.Event{
			Time: time.Now(), Level: "warn", Kind: "ha_settings_differ", Message: "settings of this manager and another one differ: give both the same",
			Attrs: map[string]string{"peer": address, "settings": strings.Join(names, ", ")},
		}
		if len(names) == 0 {
			e.Level, e.Kind, e.Message = "info", "ha_settings_alike", "no settings of this manager and another one differ any more"
			delete(e.Attrs, "settings")
		}
		events.Add(e)
	}
}
