package testbed

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// StartOpenSM starts OpenSM with its files in dir, on a host of the simulator with a socket; an empty
// host is the simulator's first.
func (b *Testbed) StartOpenSM(dir, sock, host string, args ...string) (*Program, error) {
	env := []string{"IBSIM_SOCKNAME=" + sock, "OSM_TMP_DIR=" + dir, "OSM_CACHE_DIR=" + dir, "LD_PRELOAD="}
	if host != "" {
		env = append(env, "SIM_HOST="+host)
	}
	return Launch(dir, env, "ibsim-run", append([]string{b.OpenSM}, args...)...)
}

// marks are the lines of OpenSM's log that end its phases. Those from
// "discover" on need -D 0x07.
var marks = []struct{ phase, text string }{
	{"start", "INITIATING HEAVY SWEEP"},
	{"discover", "HEAVY SWEEP COMPLETE"},
	{"assign", "LID ASSIGNMENT COMPLETE - STARTING SWITCH TABLE CONFIG"},
	{"", "building routing with"},
	{"route", "tables configured on all switches"},
	{"distribute", "SWITCHES CONFIGURED FOR UNICAST"},
	{"links", "LINKS PORTS CONFIGURED - SET LINKS TO ARMED STATE"},
	{"arm", "LINKS ARMED - SET LINKS TO ACTIVE STATE"},
	{"activate", "-> SUBNET UP"},
}

// OpenSMPhases reads the durations of the phases of a sweep from OpenSM's log, in seconds. A
// banner has no time of its own: that of the entry that it belongs to counts.
func OpenSMPhases(log string) (map[string]float64, error) {
	text, err := os.ReadFile(log)
	if err != nil {
		return nil, err
	}
	phases := map[string]float64{}
	var now, last time.Time
	next := 0
	for line := range strings.SplitSeq(string(text), "\n") {
		if t, ok := stamp(line); ok {
			now = t
		}
		for i := next; i < len(marks); i++ {
			if !strings.Contains(line, marks[i].text) {
				continue
			}
			if !last.IsZero() && marks[i].phase != "" {
				phases[marks[i].phase] += now.Sub(last).Seconds()
			}
			last, next = now, i+1
			break
		}
	}
	return phases, nil
}

// stamp reads "Nov 21 05:43:46 619702 [".
func stamp(line string) (time.Time, bool) {
	if len(line) < 24 || line[22:24] != " [" {
		return time.Time{}, false
	}
	t, err := time.Parse("Jan _2 15:04:05 000000", line[:22])
	if err != nil {
		t, err = time.Parse("Jan _2 15:04:05", line[:15])
		us, err2 := strconv.Atoi(line[16:22])
		if err != nil || err2 != nil {
			return t, false
		}
		t = t.Add(time.Duration(us) * time.Microsecond)
	}
	return t, true
}
