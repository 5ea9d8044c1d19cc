package sim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"heddle/fabric"
	"heddle/ib"
)

// ErrQuit is what Exec returns for the command that ends the simulator.
var ErrQuit = errors.New("sim: quit")

// command is a console command.
type command struct {
	name, args, help string
	run              func(s *Subnet, a []string, out *strings.Builder) error
}

// commands in the order of help. The first group consists of ibsim's commands.
var commands []command

func init() {
	commands = []command{
		{"link", `A[p] B[q] | down|up A[p] | down|up A B`, "connect two free ports, or take a link (all links between two nodes) down or up", (*Subnet).cmdLink},
		{"unlink", `A[p] | A`, "unplug the cable of a port, or all of a node", (*Subnet).cmdUnlink},
		{"relink", `A[p] | A`, "restore the links that unlink and clear removed", (*Subnet).cmdRelink},
		{"clear", `A[p] | A`, "unplug the port and clear its LID, LMC and SM LID", (*Subnet).cmdClear},
		{"error", `A[p] PERCENT [ATTR]`, "lose a share of the MADs at a port, of all attributes or one", (*Subnet).cmdError},
		{"performanceset", `A[p] Attribute.Field=VALUE`, "set a counter", (*Subnet).cmdPerformanceSet},
		{"baselid", `A[p] LID [LMC]`, "set the LID of a port", (*Subnet).cmdBaseLID},
		{"guid", `A GUID`, "change the GUID that a node reports", (*Subnet).cmdGUID},
		{"dump", `[A]`, "print the fabric, or one node", (*Subnet).cmdDump},
		{"route", `FROM-LID TO-LID`, "trace a path through the forwarding tables", (*Subnet).cmdRoute},
		{"pairs", `[watch]`, "count the pairs (switch with a host, LID) that tables connect and that they do not; watch counts changes from now on", (*Subnet).cmdPairs},
		{"attached", ``, "list the endpoints", (*Subnet).cmdAttached},
		{"node", `down|up|reboot A`, "turn a node off or on; it comes up with empty tables", (*Subnet).cmdNode},
		{"drop", `P`, "lose MADs with probability P (0.01 or 1%)", (*Subnet).cmdDrop},
		{"mute", `A [on|off]`, "make the agents of a node ignore requests", (*Subnet).cmdMute},
		{"trap", `A[p] NUMBER`, "make a node send a trap", (*Subnet).cmdTrap},
		{"describe", `A "TEXT"`, "change a node's description", (*Subnet).cmdDescribe},
		{"hypervisor", `A[p] shared|vswitch|vport N [own]`, "give a host N virtual functions, VPorts with LIDs of their own", (*Subnet).cmdHypervisor},
		{"vport", `up|down A[p] INDEX | lid A[p] INDEX own|BY | [A[p]]`, "bring a virtual function up or down, choose whose LID it uses, or list them", (*Subnet).cmdVPort},
		{"vm", `place NAME A[p] INDEX [GUID] [own] | move|ready NAME A[p] INDEX | stop|switch|resume|unready|detach|remove NAME | [NAME]`, "place, migrate (live: ready, stop, switch, resume) and remove VMs, or list them", (*Subnet).cmdVM},
		{"probe", `FROM TO [PKEY]`, "send a packet, between VMs, ports A[p] and functions A[p].INDEX, to a GID or LID", (*Subnet).cmdProbe},
		{"traffic", `start PATTERN [PACKETS/S] | stop [N] | [list]`, "send packets between hosts, at rates that this machine simulates in real time", (*Subnet).cmdTraffic},
		{"stats", ``, "print the counters of the subnet", (*Subnet).cmdStats},
		{"start", ``, "accepted for ibsim's scripts, does nothing", func(*Subnet, []string, *strings.Builder) error { return nil }},
		{"verbose", `[N]`, "accepted for ibsim's scripts, does nothing", func(*Subnet, []string, *strings.Builder) error { return nil }},
		{"help", ``, "print this", (*Subnet).cmdHelp},
		{"quit", ``, "end the simulator", func(*Subnet, []string, *strings.Builder) error { return ErrQuit }},
	}
}

// Exec runs one console command and returns what it prints. Commands are whole
// words in any case; nodes are ids or descriptions, quoted if they contain
// blanks or brackets; a port is "A"[p]. Empty lines and lines that begin with
// # do nothing.
func (s *Subnet) Exec(line string) (string, error) {
	a, err := words(line)
	if err != nil {
		return "", err
	}
	if len(a) == 0 {
		return "", nil
	}
	for i := range commands {
		c := &commands[i]
		if strings.EqualFold(a[0], c.name) {
			var out strings.Builder
			err := c.run(s, a[1:], &out)
			if errors.Is(err, errUsage) {
				err = fmt.Errorf("sim: usage: %s %s", c.name, c.args)
			}
			return out.String(), err
		}
	}
	return "", fmt.Errorf("sim: no command %q: try help", a[0])
}

var errUsage = errors.New("sim: usage")

// words splits a line at blanks outside quotes. Quotes are kept, so that a
// quoted "down" names a node.
func words(line string) (w []string, err error) {
	line = strings.TrimSpace(line)
	if strings.HasPrefix(line, "#") {
		return nil, nil
	}
	quoted, start := false, -1
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '"':
			quoted = !quoted
			if start < 0 {
				start = i
			}
		case (c == ' ' || c == '\t') && !quoted:
			if start >= 0 {
				w = append(w, line[start:i])
				start = -1
			}
		case start < 0:
			start = i
		}
	}
	if quoted {
		return nil, errors.New("sim: quote without end")
	}
	if start >= 0 {
		w = append(w, line[start:])
	}
	return w, nil
}

// target is what a word A or A[p] names; port is -1 without [p].
type target struct {
	node int
	port int
}

func unquote(w string) string { return strings.ReplaceAll(w, `"`, "") }

func (s *Subnet) target(w string) (t target, err error) {
	t.port = -1
	if i := strings.LastIndexByte(w, '['); i > 0 && strings.HasSuffix(w, "]") && i > strings.LastIndexByte(w, '"') {
		if t.port, err = strconv.Atoi(w[i+1 : len(w)-1]); err != nil {
			return t, fmt.Errorf("sim: %s: not a port number", w[i:])
		}
		w = w[:i]
	}
	if w = unquote(w); w == "" {
		return t, errUsage
	}
	if t.node, err = s.Node(w); err != nil {
		return t, err
	}
	if d := &s.devs[t.node]; t.port > int(d.nports) {
		return t, fmt.Errorf("sim: node %q has no port %d", w, t.port)
	}
	return t, nil
}

// id of a target's node.
func (s *Subnet) id(t target) string { return s.f.Nodes[t.node].ID }

// portsOf lists the ports of a target: its port, or all of the node except 0.
func (s *Subnet) portsOf(t target) (ps []int32) {
	d := &s.devs[t.node]
	if t.port >= 0 {
		return []int32{d.first + int32(t.port)}
	}
	for p := d.first + 1; p <= d.first+int32(d.nports); p++ {
		ps = append(ps, p)
	}
	return ps
}

func (s *Subnet) targets(a []string, n int) (ts []target, err error) {
	if len(a) != n {
		return nil, errUsage
	}
	for _, w := range a {
		t, err := s.target(w)
		if err != nil {
			return nil, err
		}
		ts = append(ts, t)
	}
	return ts, nil
}

func (s *Subnet) cmdLink(a []string, out *strings.Builder) error {
	if len(a) > 1 && (strings.EqualFold(a[0], "down") || strings.EqualFold(a[0], "up")) {
		return s.linkUpDown(strings.EqualFold(a[0], "up"), a[1:], out)
	}
	ts, err := s.targets(a, 2)
	if err != nil {
		return err
	}
	if ts[0].port < 0 || ts[1].port < 0 {
		return errUsage
	}
	return s.Link(s.id(ts[0]), ts[0].port, s.id(ts[1]), ts[1].port)
}

// linkUpDown unplugs or replugs the cables of a port, of a node, or between two
// nodes.
func (s *Subnet) linkUpDown(up bool, a []string, out *strings.Builder) error {
	if len(a) > 2 {
		return errUsage
	}
	ts, err := s.targets(a, len(a))
	if err != nil {
		return err
	}
	n := 0
	for _, p := range s.portsOf(ts[0]) {
		q := s.cables[p]
		if q < 0 || len(ts) == 2 && (int(s.ports[q].dev) != ts[1].node || ts[1].port >= 0 && int(s.ports[q].num) != ts[1].port) {
			continue
		}
		n++
		if !up {
			s.unplug(p)
		} else if err := s.plug(p, q); err != nil {
			return err
		}
	}
	if n == 0 {
		return fmt.Errorf("sim: no cable at %s", strings.Join(a, " "))
	}
	return nil
}

func (s *Subnet) cmdUnlink(a []string, out *strings.Builder) error { return s.linkEach(a, false, out) }

func (s *Subnet) cmdRelink(a []string, out *strings.Builder) error { return s.linkEach(a, true, out) }

func (s *Subnet) linkEach(a []string, up bool, out *strings.Builder) error {
	if len(a) != 1 {
		return errUsage
	}
	return s.linkUpDown(up, a, out)
}

func (s *Subnet) cmdClear(a []string, out *strings.Builder) error {
	ts, err := s.targets(a, 1)
	if err != nil {
		return err
	}
	for _, p := range s.portsOf(ts[0]) {
		s.unplug(p)
		if e := s.endPort(p); e == p || ts[0].port < 0 {
			s.ports[e].lid, s.ports[e].lmc = 0, 0
			s.infos[e].MasterSMLID = 0
		}
	}
	return nil
}

func (s *Subnet) cmdError(a []string, _ *strings.Builder) error {
	if len(a) < 2 || len(a) > 3 {
		return errUsage
	}
	t, err := s.target(a[0])
	if err != nil {
		return err
	}
	pct, err := strconv.ParseFloat(strings.TrimSuffix(a[1], "%"), 64)
	if err != nil || pct < 0 || pct > 100 {
		return fmt.Errorf("sim: %q is not a percentage", a[1])
	}
	attr := uint64(0)
	if len(a) == 3 {
		if attr, err = strconv.ParseUint(a[2], 0, 16); err != nil {
			return fmt.Errorf("sim: %q is not an attribute id", a[2])
		}
	}
	for _, p := range s.portsOf(t) {
		s.ports[p].errPct, s.ports[p].errAt = float32(pct), ib.AttrID(attr)
	}
	return nil
}

func (s *Subnet) cmdBaseLID(a []string, _ *strings.Builder) error {
	if len(a) < 2 || len(a) > 3 {
		return errUsage
	}
	t, err := s.target(a[0])
	if err != nil {
		return err
	}
	lid, err := strconv.ParseUint(a[1], 0, 16)
	lmc := uint64(0)
	if err == nil && len(a) == 3 {
		lmc, err = strconv.ParseUint(a[2], 0, 3)
	}
	if err != nil || lid != 0 && !ib.LID(lid).IsUnicast() || lid&(1<<lmc-1) != 0 {
		return fmt.Errorf("sim: %s is not a unicast LID with its LMC", strings.Join(a[1:], " "))
	}
	d := &s.devs[t.node]
	p := d.first + int32(max(t.port, 0))
	if !d.isSwitch() && t.port < 1 {
		p = d.first + 1
	}
	e := s.endPort(p)
	s.ports[e].lid, s.ports[e].lmc = ib.LID(lid), uint8(lmc)
	return nil
}

func (s *Subnet) cmdGUID(a []string, _ *strings.Builder) error {
	if len(a) != 2 {
		return errUsage
	}
	t, err := s.target(a[0])
	if err != nil {
		return err
	}
	g, err := strconv.ParseUint(a[1], 0, 64)
	if err != nil {
		return fmt.Errorf("sim: %q is not a GUID", a[1])
	}
	d := &s.devs[t.node]
	if d.quirk == nil {
		d.quirk = &Quirks{}
	}
	d.quirk.NodeGUID = ib.GUID(g)
	return nil
}

func (s *Subnet) cmdDump(a []string, out *strings.Builder) error {
	if len(a) > 1 {
		return errUsage
	}
	if len(a) == 1 {
		t, err := s.target(a[0])
		if err != nil {
			return err
		}
		s.dumpNode(out, t.node)
		return nil
	}
	for i := range s.devs {
		s.dumpNode(out, i)
	}
	return nil
}

func (s *Subnet) dumpNode(out *strings.Builder, i int) {
	d := &s.devs[i]
	kind := map[ib.NodeType]string{ib.NodeSwitch: "Switch", ib.NodeRouter: "Rt"}[d.typ]
	if kind == "" {
		kind = "Ca"
	}
	fmt.Fprintf(out, "%s %d %q # %q guid %v", kind, d.nports, s.f.Nodes[i].ID, d.desc.String(), d.guid)
	if d.down {
		out.WriteString(" down")
	}
	if d.muted {
		out.WriteString(" mute")
	}
	out.WriteByte('\n')
	for n := int32(0); n <= int32(d.nports); n++ {
		pt, pi := &s.ports[d.first+n], &s.infos[d.first+n]
		if n == 0 && !d.isSwitch() {
			continue
		}
		fmt.Fprintf(out, "\t[%d]", n)
		if pt.peer >= 0 {
			fmt.Fprintf(out, " %s", s.portName(pt.peer))
		}
		if s.endPort(d.first+n) == d.first+n {
			fmt.Fprintf(out, " lid %v lmc %d smlid %v", pt.lid, pt.lmc, pi.MasterSMLID)
		}
		if pt.phys == ib.PhysLinkUp {
			fmt.Fprintf(out, " %v%v", pi.LinkWidthActive, pi.ActiveSpeedOf(ib.CapIsExtendedSpeedsSupported, s.fdr10Active(d.first+n)))
		}
		fmt.Fprintf(out, " %v/%v\n", pt.state, pt.phys)
	}
}

func (s *Subnet) fdr10Active(p int32) bool {
	c := s.ports[p].cold
	return c != nil && c.fdr10Active
}

func (s *Subnet) cmdRoute(a []string, out *strings.Builder) error {
	if len(a) != 2 {
		return errUsage
	}
	var l [2]ib.LID
	for i, w := range a {
		v, err := strconv.ParseUint(w, 0, 16)
		if err != nil {
			return fmt.Errorf("sim: %q is not a LID", w)
		}
		l[i] = ib.LID(v)
	}
	from, ok := s.FindLID(l[0])
	if !ok {
		return fmt.Errorf("sim: no port has LID %v", l[0])
	}
	hops, err := s.Trace(int(from.Node), int(from.Port), l[1], 0)
	for _, h := range hops {
		fmt.Fprintf(out, "[%d] %q", h.In, s.f.Nodes[h.Node].ID)
		if h.Out != 0 {
			fmt.Fprintf(out, " [%d]", h.Out)
		}
		out.WriteByte('\n')
	}
	return err
}

func (s *Subnet) cmdAttached(_ []string, out *strings.Builder) error {
	for i, e := range s.eps {
		if e != nil {
			fmt.Fprintf(out, "%d %s", i, s.portName(e.port))
			if e.issm {
				out.WriteString(" SM")
			}
			out.WriteByte('\n')
		}
	}
	return nil
}

func (s *Subnet) cmdNode(a []string, _ *strings.Builder) error {
	if len(a) != 2 {
		return errUsage
	}
	t, err := s.target(a[1])
	if err != nil {
		return err
	}
	switch strings.ToLower(a[0]) {
	case "down":
		return s.NodeDown(s.id(t))
	case "up":
		if s.Up(t.node) {
			return nil
		}
		return s.NodeUp(s.id(t))
	case "reboot":
		return s.NodeUp(s.id(t))
	}
	return errUsage
}

func (s *Subnet) cmdDrop(a []string, out *strings.Builder) error {
	if len(a) != 1 {
		return errUsage
	}
	w, pct := strings.CutSuffix(a[0], "%")
	p, err := strconv.ParseFloat(w, 64)
	if pct {
		p /= 100
	}
	if err != nil || p < 0 || p > 1 {
		return fmt.Errorf("sim: %q is not a probability", a[0])
	}
	s.SetDrop(p)
	return nil
}

func (s *Subnet) cmdMute(a []string, _ *strings.Builder) error {
	if len(a) < 1 || len(a) > 2 {
		return errUsage
	}
	t, err := s.target(a[0])
	if err != nil {
		return err
	}
	return s.MuteSMA(s.id(t), len(a) == 1 || !strings.EqualFold(a[1], "off"))
}

func (s *Subnet) cmdTrap(a []string, _ *strings.Builder) error {
	if len(a) != 2 {
		return errUsage
	}
	t, err := s.target(a[0])
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(a[1], 0, 16)
	if err != nil {
		return fmt.Errorf("sim: %q is not a trap number", a[1])
	}
	port := t.port
	if port < 0 {
		port = 1
		if s.devs[t.node].isSwitch() {
			port = 0
		}
	}
	return s.InjectTrap(s.id(t), port, uint16(n))
}

func (s *Subnet) cmdDescribe(a []string, _ *strings.Builder) error {
	if len(a) != 2 {
		return errUsage
	}
	t, err := s.target(a[0])
	if err != nil {
		return err
	}
	return s.SetNodeDescription(s.id(t), unquote(a[1]))
}

func (s *Subnet) cmdStats(_ []string, out *strings.Builder) error {
	st := &s.stats
	fmt.Fprintf(out, "sent %d delivered %d hops %d smps %d gmps %d\n", st.Sent, st.Delivered, st.Hops, st.SMPs, st.GMPs)
	fmt.Fprintf(out, "lft sets %d mft sets %d portinfo sets %d port transitions %d\n", st.LFTSets, st.MFTSets, st.PortInfoSets, st.PortTransitions)
	if st.VPortSets+st.VPortTransitions > 0 {
		fmt.Fprintf(out, "vport sets %d vport transitions %d\n", st.VPortSets, st.VPortTransitions)
	}
	fmt.Fprintf(out, "traps %d repeated %d repressed %d\n", st.Traps, st.TrapRepeats, st.TrapsRepressed)
	for r, n := range st.Drops {
		if n > 0 {
			fmt.Fprintf(out, "dropped %v %d\n", DropReason(r), n)
		}
	}
	return nil
}

func (s *Subnet) cmdHelp(_ []string, out *strings.Builder) error {
	for _, c := range commands {
		fmt.Fprintf(out, "%-46s %s\n", strings.TrimSpace(c.name+" "+c.args), c.help)
	}
	return nil
}

// counterNames are the fields of PerformanceSet in the order of their arrays.
var (
	trafficNames = []string{
		"PortXmitData", "PortRcvData", "PortXmitPkts", "PortRcvPkts", "PortUnicastXmitPkts",
		"PortUnicastRcvPkts", "PortMulticastXmitPkts", "PortMulticastRcvPkts",
	}
	errorNames = []string{
		"SymbolErrorCounter", "LinkErrorRecoveryCounter", "LinkDownedCounter", "PortRcvErrors",
		"PortRcvRemotePhysicalErrors", "PortRcvSwitchRelayErrors", "PortXmitDiscards", "PortXmitConstraintErrors",
		"PortRcvConstraintErrors", "LocalLinkIntegrityErrors", "ExcessiveBufferOverrunErrors", "VL15Dropped",
		"PortXmitWait", "QP1Dropped",
	}
	detailNames = [numDetails][]string{
		detRcvErrors: {
			"PortLocalPhysicalErrors", "PortMalformedPacketErrors", "PortBufferOverrunErrors",
			"PortDLIDMappingErrors", "PortVLMappingErrors", "PortLoopingErrors",
		},
		detXmitDiscards: {
			"PortInactiveDiscards", "PortNeighborMTUDiscards", "PortSwLifetimeLimitDiscards",
			"PortSwHOQLifetimeLimitDiscards",
		},
		detOpRcv:           {"PortOpRcvPkts", "PortOpRcvData"},
		detFlowCtl:         {"PortXmitFlowPkts", "PortRcvFlowPkts"},
		detVLPackets:       byVL("PortVLOpPackets"),
		detVLData:          byVL("PortVLOpData"),
		detVLFlowCtlErrors: byVL("PortVLXmitFlowCtlUpdateErrors"),
		detVLXmitWait:      byVL("PortVLXmitWait"),
		detXmitDataSL:      byVL("XmtDataSL"),
		detRcvDataSL:       byVL("RcvDataSL"),
		detCongestion:      byVL("SWPortVLCongestion"),
	}
	detailAttrNames = [numDetails]string{
		"PortRcvErrorDetails", "PortXmitDiscardDetails", "PortOpRcvCounters",
		"PortFlowCtlCounters", "PortVLOpPackets", "PortVLOpData", "PortVLXmitFlowCtlUpdateErrors", "PortVLXmitWaitCounters",
		"PortXmitDataSL", "PortRcvDataSL", "SwPortVLCongestion",
	}
)

func byVL(name string) (n []string) {
	for i := range 16 {
		n = append(n, name+strconv.Itoa(i))
	}
	return n
}

func (s *Subnet) cmdPerformanceSet(a []string, _ *strings.Builder) error {
	if len(a) != 2 {
		return errUsage
	}
	t, err := s.target(a[0])
	if err != nil {
		return err
	}
	name, val, ok := strings.Cut(a[1], "=")
	attr, field, ok2 := strings.Cut(name, ".")
	if !ok || !ok2 {
		return errUsage
	}
	v, err := strconv.ParseUint(val, 0, 64)
	if err != nil {
		return fmt.Errorf("sim: %q is not a counter value", val)
	}
	for _, p := range s.portsOf(t) {
		if !s.setCounter(p, attr, field, v) {
			return fmt.Errorf("sim: no counter %s", name)
		}
	}
	return nil
}

func find(names []string, name string) int {
	return slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

// setCounter sets a counter by name; false: there is no such counter.
func (s *Subnet) setCounter(p int32, attr, field string, v uint64) bool {
	ext := strings.EqualFold(attr, "PortCountersExtended")
	if ext || strings.EqualFold(attr, "PortCounters") {
		if i := find(errorNames, field); i >= 0 {
			s.coldOf(p).pm.err[i] = v
			return true
		}
		i := find(trafficNames, field)
		s.countData(p)
		c := &s.ports[p].cnt
		switch {
		case i < 0:
			return false
		case ext:
			*c.traffic64()[i] = v
		case i > 3:
			return false
		default:
			*[4]*uint32{&c.xmitData32, &c.rcvData32, &c.xmitPkts32, &c.rcvPkts32}[i] = uint32(min(v, 1<<32-1))
		}
		return true
	}
	for k := range detailAttrNames {
		if strings.EqualFold(attr, detailAttrNames[k]) {
			if i := find(detailNames[k], field); i >= 0 {
				s.coldOf(p).pm.rows()[k][i] = v
				return true
			}
		}
	}
	return false
}

// Attached lists the ports that endpoints hold, in the order of their slots.
func (s *Subnet) Attached() (r []fabric.Ref) {
	for _, e := range s.eps {
		if e != nil {
			r = append(r, fabric.Ref{Node: s.ports[e.port].dev, Port: s.ports[e.port].num})
		}
	}
	return r
}
