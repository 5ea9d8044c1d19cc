package check

import "heddle/route/cdg"

// Dependencies are those of the traffic that must be free of cycles, multicast
// included, with an order of them; nil if the tables are not OK. Who wants to
// change them must Clone them first. route/transition adds to them what a
// change allows while it is being made.
func (p *Proof) Dependencies() (*cdg.Graph, *cdg.Order) {
	if p.st == nil {
		return nil, nil
	}
	return p.st.ca, p.st.order
}
