// Package rc is the reliable connection of InfiniBand, as one end of it sees it: a
// queue pair with its states, packet sequence numbers, acknowledgments, retries
// and path migration (IBA volume 1, chapters 9, 10 and 17.2.8).
//
// A QP is pure: packets, times and work requests go in, packets, completions and
// events come out. It knows no adapter and no fabric, so a channel that loses,
// delays or reorders can test it alone.
//
//	q := rc.New(rc.Config{QPN: 17, Window: 64}, owner)
//	q.Init()
//	q.Receivable(rc.Connect{RemoteQPN: 23, PSN: 100, Path: path})
//	q.Sendable(rc.Sender{PSN: 500, Timeout: 14, Retries: 7, RNRRetries: 7})
//	q.Post(1, 1<<20)
//	for q.Poll(now, &p) { … }
//
// # What is modeled
//
// Messages are sends of a length; their content is one number that all packets
// carry. A message takes ⌈length/MTU⌉ packets, at least one. The requester has at
// most Config.Window packets without acknowledgment and requests one with each
// last packet of a message, every Config.AckEvery packets, and with the packet that
// fills the window. An acknowledgment covers all packets up to its number. After a
// gap the responder sends one NAK (PSN sequence error) and drops what follows until
// the packet that it expects comes; the requester goes back to that packet
// (go-back-N). Without a posted receive it sends an RNR NAK. End-to-end credits are
// counted in receives, in the code of the AETH; a requester without credits sends
// one packet and waits.
//
// The transport timer is 4.096 µs·2ⁿ and runs while a packet that has left the
// adapter is not acknowledged; a packet that waits in the adapter stops it. Each
// expiry, and each NAK that acknowledges nothing new, uses one of Sender.Retries;
// an acknowledgment that covers something new restores them. When none is left the
// connection migrates if it is armed, and ends in Error if not.
//
// Not modeled: RDMA, atomics, invalidation, immediate data, SRQs, and the checks of
// Q_Key and P_Key, which are the adapter's. ACKs are sent at once. Adapters may
// wait up to four times the transport timer; this one does not.
package rc
