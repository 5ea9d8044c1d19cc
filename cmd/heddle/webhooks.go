package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"heddle/api"
	"heddle/webhook"
)

// webhookMarks is the file, among the events, of what each target has.
const webhookMarks = "webhooks.json"

// startWebhooks sends events to the targets of the settings until ctx ends; then the channel is closed.
func (f smFlags) startWebhooks(ctx context.Context, m *managed) ([]chan struct{}, error) {
	name := f.Files.Webhooks
	if name == "" || m.once {
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
	path := ""
	if f.Files.State != "" {
		path = filepath.Join(f.Files.State, eventsDir, webhookMarks)
	}
	marks := webhook.OpenMarks(path, m.events.ID())
	senders := make([]*webhook.Sender, len(targets))
	var running sync.WaitGroup
	for i := range targets {
		senders[i] = webhook.New(targets[i], m.events, marks, nil)
		running.Go(func() { senders[i].Run(ctx) })
	}
	m.hooks = func() []api.Webhook {
		list := make([]api.Webhook, len(senders))
		for i, s := range senders {
			list[i] = s.Status()
		}
		return list
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		running.Wait()
		if err := marks.Save(); err != nil {
			m.log.Warn(fmt.Sprintf("events of the last second may be sent again: %v", err), "kind", "webhook_marks")
		}
	}()
	return []chan struct{}{done}, nil
}
