package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"heddle/api/metrics"
	"heddle/webhook"
)

// webhookMarks is the file, among the events, of what each target has.
const webhookMarks = "webhooks.json"

// readWebhooks reads the targets of webhooks, if there is a file of them.
func (f smFlags) readWebhooks() ([]webhook.Target, error) {
	name := f.Files.Webhooks
	if name == "" || f.Once {
		return nil, nil
	}
	b, err := os.ReadFile(name)
	var targets []webhook.Target
	if err == nil {
		targets, err = webhook.Parse(b, filepath.Dir(name))
	}
	if err != nil {
		return nil, usagef("%s %q: %w", f.From("webhooks"), name, err)
	}
	return targets, nil
}

// startWebhooks sends events to the targets of the settings until ctx ends; then the channel is closed.
func (f smFlags) startWebhooks(ctx context.Context, m *managed) (*webhook.Group, chan struct{}, error) {
	targets, err := f.readWebhooks()
	if err != nil {
		return nil, nil, err
	}
	warned := map[string]bool{}
	for i := range targets {
		if file := targets[i].SecretFile; !warned[file] {
			warnOpen(m.log, file)
			warned[file] = true
		}
	}
	path := ""
	if f.Files.State != "" {
		path = filepath.Join(f.Files.State, eventsDir, webhookMarks)
	}
	marks := webhook.OpenMarks(path, m.events.ID())
	g := webhook.NewGroup(ctx, m.events, marks, nil)
	g.Set(targets)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if m.partner != nil {
			m.partner.Run(ctx, g)
		}
		<-ctx.Done()
		g.Wait()
		if err := marks.Save(); err != nil {
			m.log.Warn(fmt.Sprintf("events of the last second may be sent again: %v", err), "kind", "webhook_marks")
		}
	}()
	return g, done, nil
}

// outputs are the metrics of what a program writes and sends besides packets.
func (m *managed) outputs(hooks *webhook.Group) prometheus.Gatherer {
	return metrics.NewOutputs(func() (x metrics.Outputs) {
		x.Unsaved, x.Lost = m.events.Health()
		for _, w := range hooks.Status() {
			x.Webhooks = append(x.Webhooks, metrics.Webhook{
				Name: w.Name, Sent: w.Sent, Failed: w.Failed, Dropped: w.Dropped, Waiting: w.Waiting,
				Paused: w.State == "open" || w.State == "gone",
			})
		}
		if m.partner != nil {
			st := m.partner.Status()
			x.Partner = &metrics.Partner{Events: st.Events, Dropped: st.Dropped}
		}
		if m.syslog != nil {
			st := m.syslog.Status()
			x.Syslog = &metrics.Syslog{Sent: st.Sent, Dropped: st.Dropped, Waiting: st.Waiting}
		}
		return x
	})
}
