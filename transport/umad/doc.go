// Package umad is a port of this machine's InfiniBand hardware: Linux' user MAD device
// (/dev/infiniband/umadN) in pure Go, without cgo and without libibumad.
//
//	p, err := umad.OpenPort(umad.Options{Name: "mlx5_0/1"})
//	if err != nil { … }
//	defer p.Close()
//	p.SetIsSM(true)
//	go func() { var k mad.Packet; for p.Recv(&k) == nil { … } }()
//	p.Send(&mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Timeout: 200 * time.Millisecond, Data: smp[:]})
//
// A Port implements mad.Transport. The kernel times each try and reports an unanswered
// request as mad.Failed; it segments and reassembles the RMPP messages of the SA class,
// unless Options.OwnRMPP; it owns the upper 32 bits of the transaction IDs of requests,
// the lower 32 are the caller's. mad.Engine retries.
//
// By default a Port is for a manager: it registers the methods that a subnet manager and
// an SA must answer, which only one program per port can. With Options.Client it
// registers none, and any number of programs may share the port.
//
// Send and Recv may be called from one goroutine each at a time, SetIsSM and Close from
// any.
package umad
