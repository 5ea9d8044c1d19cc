package check

import "heddle/route/cdg"

// Dependencies returns the dependencies of the traffic that must be free of
// cycles, multicast included, and an order of them; nil if the tables are not
// OK. Clone them before changing them. route/transition adds the dependencies
// that a change permits while it is in progress.
func (p *Proof) Dependencies() (*cdg.Graph, *cdg.Order) {
	if p.st == nil {
		return nil, nil
	}
	return p.st.ca, p.st.order
}
