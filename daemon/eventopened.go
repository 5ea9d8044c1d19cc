package daemon

import "heddle/api"

// keptOpenings bounds how many findings' events are known: more than findings are shown.
const keptOpenings = 4096

// openings are the events with which findings opened, by incident.Fact.Subject. The zero value has
// none.
type openings struct {
	numbers map[string]opening
	order   []string // oldest first
}

// opening are numbers of events: that of the opening, and that of its cause.
type opening struct{ event, cause uint64 }

func (o *openings) note(subject string, e *api.Event) {
	if o.numbers == nil {
		o.numbers = map[string]opening{}
	}
	if _, ok := o.numbers[subject]; !ok {
		o.order = append(o.order, subject)
		if len(o.order) > keptOpenings {
			delete(o.numbers, o.order[0])
			o.order = o.order[1:]
		}
	}
	o.numbers[subject] = opening{e.Seq, e.Cause}
}

// nameEvents says of findings with which event they opened, and which is its cause.
func (d *Daemon) nameEvents(list []api.Finding) {
	d.events.mu.Lock()
	defer d.events.mu.Unlock()
	for i := range list {
		n := d.events.opened.numbers[d.finder.subject(list[i].ID)]
		list[i].Event, list[i].Cause = n.event, n.cause
	}
}
