package lab

import (
	"slices"
	"testing"
	"time"

	"heddle/congestion"
	"heddle/fabric"
	"heddle/ib"
	"heddle/sim"
	"heddle/sim/dataplane"
)

// TestCongestionFair: three senders to one host over lanes that buffer three packets. Marks that end
// with the queue are those of the slow senders; a hysteresis of two packets makes them fair.
func TestCongestionFair(t *testing.T) {
	const bytes = 2048 + dataplane.OverheadRC
	for _, c := range []struct {
		hysteresis  int
		least, most float64 // of the lowest share to the highest one
	}{{0, 0, 0.4}, {dataplane.Blocks(2 * bytes), 0.7, 1}} {
		f, err := fabric.Generate(fabric.XGFT{Children: []int{4, 4}, Parents: []int{1, 2}}, fabric.GenerateOptions{Width: ib.Width1x, Speed: ib.SpeedSDR})
		if err != nil {
			t.Fatal(err)
		}
		cfg := ccConfig(congestion.Act)
		cfg.Logs = 0
		b := newCCBed(t, f, sim.Config{Seed: 1, VLCap: 4, Carriage: sim.Apart}, cfg) // 8 lanes
		b.start()
		b.settled(time.Minute)
		dc := dataplane.Defaults()
		dc.MarkHysteresis = c.hysteresis
		e, err := b.c.Sim.StartData(dc, dataplane.DefaultCable)
		if err != nil {
			t.Fatal(err)
		}
		host := map[string]int{}
		for h := range e.NumHosts() {
			host[f.Nodes[e.HostPort(h).Node].Desc] = h
		}
		for i, p := range [][2]string{{"host-1", "host-5"}, {"host-6", "host-5"}, {"host-9", "host-5"}, {"host-2", "host-13"}} {
			s := dataplane.Stream{Src: host[p[0]], To: dataplane.To(host[p[1]]), Bytes: bytes, Start: e.Now() + dataplane.Time(i)*7*dataplane.Microsecond}
			if _, err := e.AddStream(s); err != nil {
				t.Fatal(err)
			}
		}
		b.c.Run(300 * time.Millisecond)
		b.c.Sim.Data().ResetStats()
		b.c.Run(200 * time.Millisecond)
		b.c.Sim.Data()
		var got []float64
		for i := range 3 {
			got = append(got, float64(e.Flow(i).Delivered))
		}
		if fair := slices.Min(got) / slices.Max(got); fair < c.least || fair > c.most {
			t.Errorf("hysteresis %d: %v packets: %.2f", c.hysteresis, got, fair)
		}
	}
}
