package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

// Controller changes the settings of a running program. Its methods may be called from many
// goroutines.
type Controller interface {
	// Reload reads the settings and their files again, and applies what can change while running. An
	// error means that nothing changed, and says where the mistake is. With dry it applies nothing.
	Reload(ctx context.Context, dry bool) (Reloaded, error)
	// LogLevel is debug, info, warn or error.
	LogLevel() string
	SetLogLevel(name string) error
	// Settings are those in force, without keys.
	Settings() []SettingValue
	// SetPriority changes the priority of the manager in the election of a master.
	SetPriority(priority int) error
	// Activate has a manager that was started inactive take part in the election.
	Activate() error
}

// SettingValue is a setting in force.
type SettingValue struct {
	Setting string `json:"setting"`
	Value   string `json:"value" doc:"of keys: set, or empty"`
	From    string `json:"from,omitempty" doc:"where it was given; empty: it has its default"`
	Applies string `json:"applies" enum:"live,restart" doc:"when another value applies: at a reload, or at a restart"`
}

type priorityInput struct {
	Priority int `query:"priority" required:"true" minimum:"0" maximum:"15" doc:"the highest becomes master"`
}

type reloadInput struct {
	DryRun bool `query:"dry_run" doc:"read and check them, and say only what would change"`
}

// Reloaded is the answer to a reload.
type Reloaded struct {
	Applied bool            `json:"applied" doc:"false: this was a dry run"`
	Changes []SettingChange `json:"changes" doc:"settings that differ from those in force, in the order of their documentation"`
	Restart []string        `json:"restart" doc:"names of those that need a restart; until then the old value is in force"`
	Files   []string        `json:"files" doc:"files that were read again, changed or not"`
	Reroute bool            `json:"reroute" doc:"settings of routing differ: all tables are computed anew"`
	Later   bool            `json:"later" doc:"no manager runs in this process now: its settings apply when it becomes active"`
	// Partitions is what the file of partitions changes.
	Partitions *PartitionPlan `json:"partitions,omitempty" doc:"what the file of partitions changes; left out: nothing"`
}

// SettingChange is a setting that differs from the one in force.
type SettingChange struct {
	Setting string `json:"setting"`
	From    string `json:"from" doc:"the value that was in force; empty for keys"`
	To      string `json:"to" doc:"the value that was read; empty for keys"`
	Applies string `json:"applies" enum:"now,restart" doc:"now: it is in force; restart: it needs one"`
}

// LogLevel is the body of /v1/loglevel.
type LogLevel struct {
	Level string `json:"level" enum:"debug,info,warn,error" doc:"least level of log messages, until the next restart, or until a reload finds another log-level than the last"`
}

// controlling adds what a Controller does; nil: it is not there.
func controlling(a huma.API, c Controller) {
	if c == nil {
		return
	}
	huma.Register(a, command("reload", http.MethodPost, "/v1/reload", "Read settings and files again"), func(ctx context.Context, in *reloadInput) (*body[Reloaded], error) {
		r, err := c.Reload(ctx, in.DryRun)
		if err != nil {
			return nil, huma.Error422UnprocessableEntity("nothing changed: " + err.Error())
		}
		r.Changes, r.Restart, r.Files = nonNil(r.Changes), nonNil(r.Restart), nonNil(r.Files)
		if !r.Applied {
			changed(ctx, dryRun)
			return reply(r), nil
		}
		for i := range r.Changes {
			x := &r.Changes[i]
			changed(ctx, x.Setting+": "+x.From+" -> "+x.To+" ("+x.Applies+")")
		}
		if r.Partitions != nil {
			planChanged(ctx, r.Partitions)
		}
		return reply(r), nil
	})
	huma.Get(a, "/v1/settings", func(context.Context, *struct{}) (*body[[]SettingValue], error) {
		return reply(c.Settings()), nil
	})
	huma.Register(a, command("ha-priority", http.MethodPost, "/v1/ha/priority", "Change the priority of this manager"), func(ctx context.Context, in *priorityInput) (*struct{}, error) {
		before := ""
		if auditing(ctx) {
			list := c.Settings()
			if i := slices.IndexFunc(list, func(x SettingValue) bool { return x.Setting == "priority" }); i >= 0 {
				before = list[i].Value
			}
		}
		if err := c.SetPriority(in.Priority); err != nil {
			return nil, haError(err)
		}
		changed(ctx, "priority: "+before+" -> "+strconv.Itoa(in.Priority))
		return nil, nil
	})
	huma.Register(a, command("ha-activate", http.MethodPost, "/v1/ha/activate", "Have a manager that was started inactive take part"), func(context.Context, *struct{}) (*struct{}, error) {
		if err := c.Activate(); err != nil {
			return nil, haError(err)
		}
		return nil, nil
	})
	huma.Get(a, "/v1/loglevel", func(context.Context, *struct{}) (*body[LogLevel], error) {
		return reply(LogLevel{c.LogLevel()}), nil
	})
	huma.Register(a, command("set-loglevel", http.MethodPut, "/v1/loglevel", "Change the level of log messages"), func(ctx context.Context, in *struct{ Body LogLevel }) (*body[LogLevel], error) {
		before := c.LogLevel()
		if err := c.SetLogLevel(in.Body.Level); err != nil {
			return nil, huma.Error422UnprocessableEntity(err.Error())
		}
		changed(ctx, "log level: "+before+" -> "+c.LogLevel())
		return reply(LogLevel{c.LogLevel()}), nil
	})
}
