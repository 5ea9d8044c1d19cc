package hypervisor

import (
	"errors"

	"heddle/ib"
	"heddle/sim/host/adapter"
	"heddle/sim/host/program"
	"heddle/sim/host/rc"
)

// Carrier is the connection between two hypervisors that carries a machine's memory
// over the fabric.
type Carrier struct {
	out, in *adapter.Connection
	posted  uint64
	broken  bool
	got     int64
}

// ErrCarrier is why a migration failed whose connection between the hypervisors did.
var ErrCarrier = errors.New("hypervisor: the connection between the hypervisors has failed")

// OpenCarrier connects two hypervisors.
func OpenCarrier(from, to *adapter.Adapter, o adapter.Options, s rc.Sender, there, back rc.Path) (*Carrier, error) {
	c := &Carrier{}
	var err error
	c.out, c.in, err = program.Pair(from, to, o, s, there, back, c, c)
	return c, err
}

// SetPeers names the hypervisors for the software of each other.
func (c *Carrier) SetPeers(from, to ib.GID) {
	c.out.SetPeer(to)
	c.in.SetPeer(from)
}

// Send sends bytes.
func (c *Carrier) Send(bytes int) {
	c.posted++
	if c.out.Post(c.posted, bytes) != nil {
		c.broken = true
	}
}

// Arrived is how many have come.
func (c *Carrier) Arrived() int64 { return c.got }

// Broken reports that the connection has failed.
func (c *Carrier) Broken() error {
	if c.broken {
		return ErrCarrier
	}
	return nil
}

// Close ends the connection.
func (c *Carrier) Close() {
	c.out.Destroy()
	c.in.Destroy()
}

// Sent implements adapter.Program.
func (c *Carrier) Sent(_ *adapter.Connection, _ uint64, st rc.Status) {
	if st != rc.Success {
		c.broken = true
	}
}

// Received implements adapter.Program.
func (c *Carrier) Received(_ *adapter.Connection, _ uint64, bytes int) { c.got += int64(bytes) }

// Happened implements adapter.Program.
func (c *Carrier) Happened(*adapter.Connection, rc.Event) {}

// Due implements adapter.Program.
func (c *Carrier) Due(uint64) {}
