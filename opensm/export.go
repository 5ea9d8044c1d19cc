package opensm

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"heddle/congestion"
	"heddle/ib"
	"heddle/settings"
	"heddle/store"
)

// BothEnds are the cables of stored neighbors, each in both directions, as OpenSM wants them. Of a
// cable to a host the store knows one end: its other one is port 1, which OpenSM only compares.
func BothEnds(list []store.NeighborEntry) (cables []Neighbor) {
	type end struct {
		guid ib.GUID
		port uint8
	}
	waiting := map[[2]ib.GUID][]uint8{} // ports of the first towards the second, without a far end yet
	switches := map[ib.GUID]bool{}
	for _, e := range list {
		switches[e.Node] = true
	}
	add := func(a, b end) {
		cables = append(cables, Neighbor{GUID: a.guid, Port: a.port, Peer: b.guid, PeerPort: b.port}, Neighbor{GUID: b.guid, Port: b.port, Peer: a.guid, PeerPort: a.port})
	}
	for _, e := range list {
		here, there := [2]ib.GUID{e.Node, e.Peer}, [2]ib.GUID{e.Peer, e.Node}
		switch far := waiting[there]; {
		case !switches[e.Peer]:
			add(end{e.Node, e.Port}, end{e.Peer, 1})
		case len(far) > 0:
			add(end{e.Peer, far[0]}, end{e.Node, e.Port})
			waiting[there] = far[1:]
		default:
			waiting[here] = append(waiting[here], e.Port)
		}
	}
	return cables
}

// WriteConf writes an opensm.conf with what settings of Heddle mean to OpenSM: the options that
// differ from OpenSM's defaults. dump is the SA dump that it is to load, empty for none.
func WriteConf(w io.Writer, v *settings.Values, dump string) error {
	var b strings.Builder
	b.WriteString("# Made by 'heddle export opensm'. All other options have OpenSM's defaults.\n")
	line := func(name, value string) { fmt.Fprintf(&b, "%s %s\n", name, value) }
	for i := range table {
		o := &table[i]
		if o.Vendor {
			continue
		}
		if text := o.from(v); text != "" && text != o.Default {
			line(o.Name, text)
		}
	}
	b.WriteString("# So that no LID moves when OpenSM becomes master after a standby.\n")
	line("honor_guid2lid_file", "TRUE")
	if dump != "" {
		line("sa_db_file", dump)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// from is the value of an option by the settings; empty for OpenSM's default.
func (o *Option) from(v *settings.Values) string {
	c := &v.Config
	if back, ok := special[o.Name]; ok {
		return back(c)
	}
	if o.Setting == "" || o.Verdict != Taken {
		return ""
	}
	text := v.Text(o.Setting)
	switch o.kind.is {
	case isBool:
		return truth(text == "true")
	case isNumber:
		n, err := strconv.ParseUint(text, 0, 64)
		if err != nil || n > o.kind.max {
			return ""
		}
		return o.kind.write(n)
	case isText:
		return text
	}
	return ""
}

func truth(b bool) string { return strings.ToUpper(strconv.FormatBool(b)) }

func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}
func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
func none(*settings.Config) string  { return "" }

// special are options whose value is not the text of their setting.
var special = map[string]func(c *settings.Config) string{
	"guid": func(c *settings.Config) string {
		text, ok := strings.CutPrefix(c.Port, "umad:0x")
		if g, err := strconv.ParseUint(text, 16, 64); ok && err == nil {
			return hex64.write(g)
		}
		return ""
	},
	"sa_key": func(c *settings.Config) string {
		if !c.SAKey.Given {
			return ""
		}
		return hex64.write(c.SAKey.Key)
	},
	"lmc_esp0": func(c *settings.Config) string { return truth(c.SM.LMC > 0 && c.SM.LMCPort0 == c.SM.LMC) },
	"sm_sl": func(c *settings.Config) string {
		return strconv.Itoa(int(c.SM.MasterSMSL))
	},
	"max_op_vls":               func(c *settings.Config) string { return strconv.Itoa(int(c.SM.MaxOpVLs)) },
	"force_link_speed":         func(c *settings.Config) string { return strconv.Itoa(int(c.SM.LinkSpeed)) },
	"force_link_speed_ext":     func(c *settings.Config) string { return strconv.Itoa(int(c.SM.LinkSpeedExt)) },
	"force_link_width":         func(c *settings.Config) string { return strconv.Itoa(int(c.SM.LinkWidth)) },
	"no_partition_enforcement": none,
	"sweep_interval":           func(c *settings.Config) string { return seconds(c.SM.SweepInterval) },
	"force_heavy_sweep":        func(c *settings.Config) string { return truth(c.SM.FullInterval > 0) },
	"routing_engine":           engineList,
	"nue_max_num_vls": func(c *settings.Config) string {
		if slices.Contains(c.Engines.Names, "nue") {
			return strconv.Itoa(c.SM.MaxVLs)
		}
		return ""
	},
	"sminfo_polling_timeout": func(c *settings.Config) string { return millis(c.SM.PollInterval) },
	"transaction_timeout":    func(c *settings.Config) string { return millis(c.SM.SMPTimeout) },
	"max_wire_smps2":         none,
	"drop_event_subscriptions": func(c *settings.Config) string {
		return truth(c.Registry.DropAfter > 0 && c.Registry.DropAfter <= time.Second)
	},
	"perfmgr":                         func(c *settings.Config) string { return truth(c.Perf.Period > 0) },
	"perfmgr_max_outstanding_queries": none,
	"perfmgr_sweep_time_s": func(c *settings.Config) string {
		if c.Perf.Period == 0 {
			return ""
		}
		return seconds(c.Perf.Period)
	},
	"perfmgr_ignore_cas": func(c *settings.Config) string { return truth(c.Perf.Period > 0 && !c.Perf.Hosts) },
	"log_flags": func(c *settings.Config) string {
		if c.Log.Level < 0 {
			return "0x07"
		}
		return ""
	},
	"congestion_control":      func(c *settings.Config) string { return truth(c.Congestion.Mode == congestion.Act) },
	"cc_max_outstanding_mads": none,
	"cc_ca_cong_setting_port_control": func(c *settings.Config) string {
		return hex16.write(uint64(c.Congestion.Policy.PortControl))
	},
	oldPortOrder: none,
}

// engineList are the engines that OpenSM has.
func engineList(c *settings.Config) string {
	var list []string
	for _, name := range c.Engines.Names {
		switch name {
		case "auto":
			list = append(list, settings.AutoChain()...)
		case "vftree": // its fat tree without the lanes
			list = append(list, "ftree")
		case "torus":
			list = append(list, "torus-2QoS")
		default:
			list = append(list, name)
		}
	}
	return strings.Join(list, ",")
}
