// Package ibsimd serves ibsim's socket protocol on a simulated subnet that
// runs in real time, so that programs built for ibsim (OpenSM, osmtest and
// infiniband-diags under ibsim-run) attach to it unchanged. It listens on
// abstract unix datagram sockets and, if asked, on UDP of the loopback
// interface; nothing is reachable from other machines.
//
//	srv, err := ibsimd.Listen(driver, ibsimd.Options{SockName: "sim"})
//	err = srv.Serve(ctx) // until ctx ends or Close
//
// # How it differs from ibsim
//
//   - Any number of clients, up to 65,535; slot numbers are 16 bit and used
//     again. A client that died is noticed within two seconds and its slot and
//     IsSM are freed; a client that disconnects loses its IsSM too.
//   - SetIsSM is refused (reply type 0) while another client of the port
//     holds IsSM.
//   - Requests that the simulation knows to be lost come back at once with
//     status 110, as with ibsim. Unanswered requests return the same way
//     after Options.AnswerTimeout, because clients under ibsim-run have no
//     timers of their own. A client that says in CONNECT that it has some, as
//     transport/ibsim does, waits as long as it likes. A request is never
//     completed twice: an answer that comes after its request was returned is
//     dropped.
//   - Only requests are returned. Answers, notices, TrapRepress and RMPP
//     acknowledgments that are lost are lost silently: no program waits for them,
//     and the preload library would hand them to the wrong agent.
//   - TrapRepress reaches the node it is sent to. Where it answers a trap that
//     a client sent, it is handed to that client: OpenSM waits for it, and
//     would never sweep again after it became master by handover.
//   - Directed routes are processed hop by hop by the simulation, M_Keys are
//     checked, mixed routes work. Clients nevertheless see HopPointer 0 in
//     everything, as with ibsim, and may answer with it.
//   - A client that set IsSM after it had connected, as subnet managers do, is
//     given requests of the subnet management and SA classes, and of those
//     classes that it has used itself. A client that connected as SM
//     (SIM_SET_ISSM), as servers of other classes must, is given every class
//     but those two, and these too once it has sent an SMP. The reason is that
//     the preload library crashes on a class that its program has not
//     registered, and that OpenSM asks every port with IsSM for SMInfo.
//   - The second group of PortCountersExtended is taken out of what PMAs say
//     they support, because it lies where the preload library damages MADs.
//   - A length below 256 that a responder states is passed on; 224 is stated
//     where the last 32 bytes of a GMP are unused, because the preload library
//     damages them otherwise. A table answer of the SA keeps the length that
//     the SA stated: clients count records by it.
//   - GetNodeInfo states the GUID that makes the preload library compute the
//     port's true GUID (port GUID minus port number), should the fabric's
//     GUIDs not follow ibsim's rule.
//   - A nodeid of 31 characters, the most that fits, also names the one node
//     whose id or description begins with it.
//   - The reply to CONNECT carries, after what ibsim says, the number of
//     requests that the client may have in flight: see InFlight; and that this
//     server tells who can put RMPP messages together. It does so by a bit in
//     the padding of each request: clients on virtual devices can, and those
//     that said so when they connected; the preload library cannot.
//
// # Speed and queues
//
// One thread serves all clients: it waits with epoll, takes up to 32 messages
// of one client with one system call, runs them through the subnet under one
// lock and writes the answers with one system call per client. Nothing is
// allocated per message.
//
// A client that does not read blocks no other. Messages that its socket rejects
// wait in a queue of Options.Queue messages; when that is full too, newer
// messages for it are lost and counted. A lost answer leaves its request open,
// so AnswerTimeout completes it once the client reads again.
package ibsimd
