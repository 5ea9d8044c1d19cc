package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"heddle/api"
)

func TestPrintHotSpots(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	end := func(name string) api.FindingEnd { return api.FindingEnd{GUID: "0x1", Port: 3, Description: name} }
	open := api.HotSpot{
		ID: 2, Host: api.HotSpotEnd{FindingEnd: end("host-5")}, At: end("leaf"), Sign: "waiting", Since: at, Wait: 0.18, Use: 0.82, Lane: 1, Paths: 1,
		Contributors: []api.HotSpotFeeder{{HotSpotEnd: api.HotSpotEnd{FindingEnd: end("host-1")}, Since: at, Wait: 0.7, Use: 0.25, Known: true}},
		Victims:      []api.HotSpotSufferer{{HotSpotEnd: api.HotSpotEnd{FindingEnd: end("host-2")}, Wait: 0.6, Use: 0.3, Via: end("leaf")}},
	}
	ended := open
	ended.ID, ended.Closed, ended.Why, ended.Lane, ended.Victims, ended.MoreContributors = 1, &at, "ended", -1, nil, 12
	behind := open
	behind.Behind = true
	text := `2 "host-5" is a hot spot since 2026-01-02T03:04:05Z (waiting)
    before it: "leaf" (0x1) port 3 waits for 18 % of the time, uses 82 %, lane 1
    fed by "host-1" since 2026-01-02T03:04:05Z: waits for 70 %, uses 25 %
    "host-2" may suffer: waits for 60 %, uses 30 %, shares the link at "leaf" (0x1) port 3
`
	for _, x := range []struct {
		h    api.HotSpots
		all  bool
		want string
	}{
		{api.HotSpots{}, false, "no hot spots: no round of port counters has been evaluated yet\n"},
		{api.HotSpots{Mode: "act", Note: "this manager is not the master"}, false, "no hot spots: this manager is not the master\n"},
		{
			api.HotSpots{Round: 1, Mode: "off", Missed: 7},
			false,
			"no hot spots\nthe fabric as a whole is full: 7 more hosts have the sign of a hot spot\n",
		},
		{api.HotSpots{Round: 1, Mode: "off", Closed: []api.HotSpot{ended}}, false, "no hot spots\n"},
		{
			api.HotSpots{Round: 1, Mode: "observe", SL: 7, Open: []api.HotSpot{open}},
			false,
			"dftree observe: service level 7 is that of the slow lane\n" + text + "    with --dftree act 1 path would be on the slow lane\n",
		},
		{
			api.HotSpots{Round: 1, Mode: "act", NoSL: "links have one lane", Open: []api.HotSpot{open}, Held: 1},
			false,
			"dftree act: there is no slow lane: links have one lane\n" + text + "    1 path is on the slow lane\n1 more host waits for ten rounds after two hot spots\n",
		},
		{
			api.HotSpots{Round: 1, Mode: "off", Open: []api.HotSpot{behind}},
			false,
			strings.Replace(text, "lane 1", "lane 1; flows to it wait behind those to others", 1),
		},
		{api.HotSpots{Round: 1, Mode: "off", Closed: []api.HotSpot{ended}}, true, `1 "host-5" is a hot spot since 2026-01-02T03:04:05Z (waiting)
    before it: "leaf" (0x1) port 3 waits for 18 % of the time, uses 82 %
    fed by "host-1" since 2026-01-02T03:04:05Z: waits for 70 %, uses 25 %
    and by 12 more
    ended 2026-01-02T03:04:05Z: ended
`},
	} {
		body, err := json.Marshal(x.h)
		if err != nil {
			t.Fatal(err)
		}
		var w strings.Builder
		if err := printHotSpots(&w, body, x.all); err != nil || w.String() != x.want {
			t.Errorf("%v: got\n%s\nwant\n%s", err, w.String(), x.want)
		}
	}
}
