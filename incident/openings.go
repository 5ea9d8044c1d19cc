package incident

// KeptOpenings is the maximum number of openings that are kept; it is greater than the number of
// findings that are shown.
const KeptOpenings = 4096

// Openings are the events with which subjects opened (Fact.Subject), the newest 4,096. The zero value has
// none.
type Openings struct {
	numbers map[string]Opening
	order   []string // oldest first
}

// Opening are numbers of events: that of the opening, and that of its cause; 0: not known.
type Opening struct{ Event, Cause uint64 }

// Note records the opening of a subject.
func (o *Openings) Note(subject string, at Opening) {
	if o.numbers == nil {
		o.numbers = map[string]Opening{}
	}
	if _, ok := o.numbers[subject]; !ok {
		o.order = append(o.order, subject)
		if len(o.order) > KeptOpenings {
			delete(o.numbers, o.order[0])
			o.order = o.order[1:]
		}
	}
	o.numbers[subject] = at
}

// Of returns the opening of a subject.
func (o *Openings) Of(subject string) Opening { return o.numbers[subject] }
