package ipoib

import (
	"maps"
	"slices"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
)

// Config configures a Device. Start from Defaults.
type Config struct {
	PKey ib.PKey
	// Lifetime is how old a path may be; 0: any age, as in Linux. It bounds the harm of a lost
	// notice.
	Lifetime time.Duration
	// Reachable is how long a neighbor is believed without a sign of life. After that it is asked
	// for again, by broadcast, while its old address is in use.
	Reachable time.Duration
	// Retry is after how long an ARP request, a path query or a join is repeated; Tries how often
	// a neighbor is asked for.
	Retry time.Duration
	Tries int
	// Queue is how many frames wait for a neighbor or a path.
	Queue int
	// Deaf devices take no notices, as Linux does.
	Deaf bool
}

// Defaults are the values of Linux: net.ipv4.neigh, and ib_ipoib.
func Defaults() Config {
	return Config{PKey: ib.PKeyDefaultFull, Reachable: 30 * time.Second, Retry: time.Second, Tries: 3, Queue: 3}
}

// Device is a network interface.
type Device struct {
	cfg   Config
	ip    IP
	link  Link
	sa    SA
	hw    Hardware
	up    bool
	epoch int // of Up and Down: answers to what an earlier one asked are void

	group  Address
	joined bool
	rejoin mad.Time
	neigh  map[IP]*neighbor
	paths  map[ib.GID]*path

	// OnFrame gets the frames of streams.
	OnFrame func(now mad.Time, f *Frame)
	// Count counts what the device did.
	Count Counters
}

// Counters count what a Device did.
type Counters struct {
	Sent, Received      uint64 // frames
	Dropped             uint64 // that waited in vain, or found no room to wait
	Requests, Replies   uint64 // ARP, sent
	Moved               uint64 // neighbors with another link-layer address
	Queries, Failed     uint64 // for paths
	Joins               uint64
	Notices             uint64
	Replaced            uint64 // paths with another LID or SL, by a notice or by an answer
	Flushed, Expired    uint64 // paths
	Unsolicited, Probes uint64 // ARP: gratuitous requests; of neighbors that were silent
}

// neighbor is an IP address on the link.
type neighbor struct {
	hw      Hardware
	known   bool
	heard   mad.Time
	waiting []Frame
	tries   int
	due     mad.Time // the next request, while it is not known; else the earliest next probe
}

// New makes an interface that is down.
func New(c Config, ip IP, link Link, sa SA) *Device {
	return &Device{cfg: c, ip: ip, link: link, sa: sa, rejoin: mad.Never, neigh: map[IP]*neighbor{}, paths: map[ib.GID]*path{}}
}

// IP is the address of the interface.
func (d *Device) IP() IP { return d.ip }

// Hardware is its link-layer address.
func (d *Device) Hardware() Hardware { return d.hw }

// Joined reports whether it is up and in its broadcast group.
func (d *Device) Joined() bool { return d.joined }

// Up brings the interface up, as hot plug does: it knows nobody, joins its broadcast group, and
// then announces itself there by a gratuitous ARP request.
func (d *Device) Up(now mad.Time, hw Hardware) {
	d.Down()
	d.up, d.hw = true, hw
	d.join(now)
}

// Down takes the interface away with all that it knows.
func (d *Device) Down() {
	for _, n := range d.neigh {
		d.Count.Dropped += uint64(len(n.waiting))
	}
	for _, p := range d.paths {
		d.Count.Dropped += uint64(len(p.waiting))
	}
	d.epoch++
	d.up, d.joined, d.rejoin = false, false, mad.Never
	clear(d.neigh)
	clear(d.paths)
}

// Rejoin joins the broadcast group again, when a manager has asked ports to register again.
func (d *Device) Rejoin(now mad.Time) {
	if d.up {
		d.join(now)
	}
}

func (d *Device) join(now mad.Time) {
	epoch := d.epoch
	d.rejoin = now.Add(d.cfg.Retry)
	d.Count.Joins++
	d.sa.Join(now, Broadcast(d.cfg.PKey), d.hw.GID, func(now mad.Time, r wire.MCMemberRecord, err error) {
		if epoch != d.epoch || err != nil {
			return // tried again at rejoin
		}
		d.rejoin = mad.Never
		d.group = Address{Path: Path{DLID: r.MLID, SL: r.SL}, QPN: 0xFFFFFF, QKey: r.QKey, GID: r.MGID}
		if !d.joined {
			d.joined = true
			d.Count.Unsolicited++
			d.request(now, d.ip)
			for _, to := range slices.Sorted(maps.Keys(d.neigh)) {
				if n := d.neigh[to]; !n.known {
					d.ask(now, to, n)
				}
			}
		}
	})
}

// request broadcasts an ARP request.
func (d *Device) request(now mad.Time, to IP) {
	d.Count.Requests++
	d.Count.Sent++
	d.link.Send(now, d.group, &Frame{Kind: ARPRequest, From: d.ip, To: to, Hardware: d.hw})
}

// Output sends a frame to an IP address, at once or when neighbor and path are known. It is false
// if the interface is down or the adapter refuses the frame.
func (d *Device) Output(now mad.Time, to IP, f *Frame) bool {
	if !d.up {
		return false
	}
	f.From, f.To = d.ip, to
	n := d.neigh[to]
	if n == nil {
		n = &neighbor{due: mad.Never}
		d.neigh[to] = n
		d.ask(now, to, n)
	}
	if n.known {
		if d.cfg.Reachable > 0 && now.Sub(n.heard) > d.cfg.Reachable && n.due <= now && d.joined {
			n.due = now.Add(d.cfg.Retry)
			d.Count.Probes++
			d.request(now, to)
		}
		return d.send(now, n.hw, f)
	}
	if len(n.waiting) >= max(d.cfg.Queue, 1) { // the oldest gives way, as in Linux
		n.waiting = slices.Delete(n.waiting, 0, 1)
		d.Count.Dropped++
	}
	n.waiting = append(n.waiting, *f)
	return true
}

// ask asks for a neighbor that is not known.
func (d *Device) ask(now mad.Time, to IP, n *neighbor) {
	n.due = now.Add(d.cfg.Retry)
	if !d.joined {
		return // asked when it is
	}
	n.tries++
	d.request(now, to)
}

// learn takes the link-layer address of a neighbor.
func (d *Device) learn(now mad.Time, ip IP, hw Hardware, create bool) {
	n := d.neigh[ip]
	if n == nil {
		if !create {
			return
		}
		n = &neighbor{}
		d.neigh[ip] = n
	}
	if n.known && n.hw != hw {
		d.Count.Moved++
	}
	n.hw, n.known, n.heard, n.tries, n.due = hw, true, now, 0, now
	list := n.waiting
	n.waiting = nil
	for i := range list {
		d.send(now, hw, &list[i])
	}
}

// Input takes a frame that has come.
func (d *Device) Input(now mad.Time, f *Frame) {
	if !d.up || f.From == d.ip {
		return
	}
	d.Count.Received++
	switch f.Kind {
	case ARPRequest:
		d.learn(now, f.From, f.Hardware, f.To == d.ip)
		if f.To == d.ip {
			d.Count.Replies++
			d.send(now, f.Hardware, &Frame{Kind: ARPReply, From: d.ip, To: f.From, Hardware: d.hw})
		}
	case ARPReply:
		d.learn(now, f.From, f.Hardware, false)
	default:
		if n := d.neigh[f.From]; n != nil && n.known {
			n.heard = now
		}
		if d.OnFrame != nil {
			d.OnFrame(now, f)
		}
	}
}

// NextTimer is when Expire is due.
func (d *Device) NextTimer() mad.Time {
	t := d.rejoin
	for _, n := range d.neigh {
		if !n.known {
			t = min(t, n.due)
		}
	}
	return t
}

// Expire repeats what is due.
func (d *Device) Expire(now mad.Time) {
	if d.rejoin <= now {
		d.join(now)
	}
	for _, to := range slices.Sorted(maps.Keys(d.neigh)) {
		n := d.neigh[to]
		switch {
		case n.known || n.due > now:
		case n.tries < d.cfg.Tries || !d.joined:
			d.ask(now, to, n)
		default: // whoever sends next asks again
			d.Count.Dropped += uint64(len(n.waiting))
			delete(d.neigh, to)
		}
	}
}
