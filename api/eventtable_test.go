package api

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"
)

// journal keeps events as the daemon does.
type journal struct {
	list []Event
	read int               // events that were handed out
	hold map[uint64]func() // is called by who reads after a number
}

func (j *journal) Events(after uint64) (out []Event, _ <-chan struct{}) {
	if wait := j.hold[after]; wait != nil {
		wait()
	}
	if len(j.list) > 0 && after > j.list[len(j.list)-1].Seq {
		after = 0
	}
	out, _ = j.find(EventsQuery{After: after, Limit: EventsPage}, true)
	return out, nil
}

func (j *journal) FindEvents(q EventsQuery) ([]Event, error) { return j.find(q, q.Oldest()) }

func (j *journal) find(q EventsQuery, oldest bool) (out []Event, err error) {
	list := slices.Clone(j.list)
	if !oldest {
		slices.Reverse(list)
	}
	for i := range list {
		if q.Match(&list[i]) && (q.Limit == 0 || len(out) < q.Limit) {
			out = append(out, list[i])
			j.read++
		}
	}
	if !oldest {
		slices.Reverse(out)
	}
	return out, nil
}

func (j *journal) Backup(io.Writer) error { return nil }

func (j *journal) add(n int) {
	for range n {
		seq := uint64(1)
		if len(j.list) > 0 {
			seq = j.list[len(j.list)-1].Seq + 1
		}
		if seq == 4000 {
			seq += 500 // as after the loss of power
		}
		e := Event{Seq: seq, Time: time.Unix(int64(seq), 0), Level: levels[seq%3], Kind: fmt.Sprint("kind_", seq%7), Message: "text"}
		if seq%1000 == 7 {
			e.Attrs = map[string]string{"node": "Rare"}
		}
		j.list = append(j.list, e)
	}
}

// TestEventTable: all stored events are in the table, whatever numbers are missing, by pages and words and
// columns; what is deleted leaves it; and a page that was shown already costs nothing.
func TestEventTable(t *testing.T) {
	j := &journal{}
	j.add(12000)
	table := &eventTable{journal: j}
	page := func(q TableQuery, total, matched int, want ...uint64) {
		t.Helper()
		if q.Limit == 0 {
			q.Limit = len(want)
		}
		p, err := table.pageOf(q)
		var got []uint64
		for i := range p.Rows {
			got = append(got, p.Rows[i].Seq)
		}
		if err != nil || p.Total != total || p.Matched != matched || !slices.Equal(got, want) {
			t.Errorf("%+v: %v of %d of %d, %v; want %v of %d of %d", q, got, p.Matched, p.Total, err, want, matched, total)
		}
	}
	newest := TableQuery{Sort: "time", Desc: true}
	page(newest, 12000, 12000, 12500, 12499, 12498)
	newest.Offset = 7999
	page(newest, 12000, 12000, 4501, 4500, 3999) // what is missing is no row
	page(TableQuery{Offset: 11999, Limit: 50}, 12000, 12000, 12500)
	page(TableQuery{Offset: 12000, Limit: 50}, 12000, 12000)
	rare := TableQuery{Q: "rare TEXT", Sort: "time", Desc: true, Limit: 3}
	page(rare, 12000, 12, 12007, 11007, 10007)
	page(TableQuery{Sort: "level", Limit: 2}, 12000, 12000, 3, 6) // the worst first
	page(TableQuery{Sort: "kind", Desc: true, Limit: 1}, 12000, 12000, 12500-12500%7+6-7)
	if _, err := table.pageOf(TableQuery{Sort: "message"}); err == nil {
		t.Error("a column that is none")
	}
	page(rare, 12000, 12, 12007, 11007, 10007)
	before := j.read
	page(rare, 12000, 12, 12007, 11007, 10007)
	if n := j.read - before; n > 0 {
		t.Errorf("a page that is known reads %d events", n)
	}
	for i := range 10 { // others push it out
		page(TableQuery{Q: fmt.Sprint("none", i), Limit: 3}, 12000, 0)
	}
	if len(table.sets) != eventSets {
		t.Errorf("%d sets of words are kept", len(table.sets))
	}
	j.list = j.list[5000:]
	j.add(600)
	page(rare, 7600, 8, 13007, 12007, 11007)
	page(TableQuery{Limit: 1}, 7600, 7600, 5501)
	j.list = nil // another journal
	j.add(5)
	page(TableQuery{Limit: 10}, 5, 5, 1, 2, 3, 4, 5)
}

// TestEventTableReads: while one request reads the whole journal for its words, others go on.
func TestEventTableReads(t *testing.T) {
	j := &journal{}
	j.add(10)
	table := &eventTable{journal: j}
	page := func(q string) Table[Event] {
		p, err := table.pageOf(TableQuery{Q: q, Limit: 3})
		if err != nil {
			t.Error(err)
		}
		return p
	}
	if p := page(""); p.Total != 10 {
		t.Errorf("%+v", p)
	}
	reads, goOn := make(chan struct{}), make(chan struct{})
	j.hold = map[uint64]func(){0: func() {
		close(reads)
		<-goOn
	}}
	var slow Table[Event]
	var waits sync.WaitGroup
	waits.Go(func() { slow = page("kind_3") })
	<-reads // it has every lock that it takes for that
	if p := page(""); p.Matched != 10 {
		t.Errorf("%+v", p)
	}
	close(goOn)
	waits.Wait()
	if slow.Matched != 2 || slow.Total != 10 {
		t.Errorf("%+v", slow)
	}
}

// TestEventTableConcurrent: many ask while events come and go; each page is one of some moment.
func TestEventTableConcurrent(t *testing.T) {
	j := &locked{}
	j.add(1500)
	table := &eventTable{journal: j}
	var asking sync.WaitGroup
	for k := range 4 {
		asking.Go(func() {
			for n := range 40 {
				q := TableQuery{Q: []string{"", "kind_1", "kind_2"}[(k+n)%3], Sort: []string{"", "kind", "level"}[n%3], Desc: k%2 == 0, Offset: 5, Limit: 20}
				p, err := table.pageOf(q)
				if err != nil || len(p.Rows) == 0 || p.Matched > p.Total+200 {
					t.Errorf("%+v: %d rows of %d of %d, %v", q, len(p.Rows), p.Matched, p.Total, err)
				}
				for i := range p.Rows {
					if q.Q != "" && p.Rows[i].Kind != q.Q {
						t.Errorf("%+v: %s", q, p.Rows[i].Kind)
					}
				}
			}
		})
	}
	for range 20 {
		j.add(10)
	}
	asking.Wait()
}

// locked is a journal for several goroutines.
type locked struct {
	mu sync.Mutex
	journal
}

func (j *locked) add(n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.journal.add(n)
	if len(j.list) > 1600 {
		j.list = j.list[10:]
	}
}

func (j *locked) Events(after uint64) ([]Event, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.journal.Events(after)
}

func (j *locked) FindEvents(q EventsQuery) ([]Event, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.journal.FindEvents(q)
}
