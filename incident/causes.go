package incident

import (
	"slices"
	"time"

	"heddle/ib"
)

// place is a port, or with port -1 a node as a whole.
type place struct {
	node ib.GUID
	port int
}

// cause is one that facts may still have.
type cause struct {
	number      uint64 // of its first event
	began, last time.Time
	places      []place // each once
	sweep       bool    // it began with a sweep that has found nothing yet
	dropped     bool    // newer causes took its place in causes.list
}

// causes are those that facts may still have. A fact finds its cause by its places, so the cost does
// not grow with the number of causes.
type causes struct {
	list []*cause           // oldest first, so by number
	at   map[place][]*cause // those of list that have a place
}

// begin makes a cause, whose number is greater than those of all before.
func (c *causes) begin(number uint64, at time.Time) *cause {
	k := &cause{number: number, began: at, last: at}
	c.list = append(c.list, k)
	if len(c.list) > maxCauses {
		c.drop(c.list[0])
		c.list = c.list[1:]
	}
	return k
}

// drop removes a cause from at.
func (c *causes) drop(k *cause) {
	k.dropped = true
	for _, p := range k.places {
		rest := slices.DeleteFunc(c.at[p], func(x *cause) bool { return x == k })
		if len(rest) == 0 {
			delete(c.at, p)
		} else {
			c.at[p] = rest
		}
	}
}

// put notes that a cause has a place.
func (c *causes) put(k *cause, p place) {
	if !k.dropped && len(k.places) < maxPlaces && !slices.Contains(c.at[p], k) {
		k.places = append(k.places, p)
		c.at[p] = append(c.at[p], k)
	}
}

// find is the newest cause at one of the places of an event, nil if there is none. A cause that has a
// node as a whole is at all of the node's ports.
func (c *causes) find(e *Event, at []place) (newest *cause) {
	finding := findings[e.Kind]
	look := func(list []*cause) {
		for _, k := range list {
			switch {
			case newest != nil && newest.number > k.number:
			case finding && e.At.Sub(k.last) > laterTime:
			case !finding && (e.At.Sub(k.last) > quietTime || e.At.Sub(k.began) > longTime):
			default:
				newest = k
			}
		}
	}
	for _, p := range at {
		look(c.at[p])
		if p.port != -1 {
			look(c.at[place{p.node, -1}])
		}
	}
	return newest
}

// places are where an event is: a node as a whole, or both ends of links.
func (e *Event) places() (list []place) {
	add := func(n ib.GUID, port int) {
		if n != 0 {
			list = append(list, place{n, port})
		}
	}
	add(e.Node, e.Port)
	if e.Peer != 0 && e.PeerPort > 0 {
		add(e.Peer, e.PeerPort)
	}
	for i := range e.Links {
		l := &e.Links[i]
		add(l.Node, l.Port)
		add(l.Peer, l.PeerPort)
	}
	for i := range e.Nodes {
		add(e.Nodes[i].GUID, -1)
	}
	return list
}
