package hurry

import (
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/absent"
	"heddle/sm/env/envtest"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/vport"
	"heddle/sm/work"
)

// TestTranscripts plays a sweep that sends requests to the hosts h2 to h4, with the usual time-out
// of 200 ms for the first of 4 tries. Commands:
//
//	ask HOST        the phase asks a host
//	want            joins wait for the sweep
//	agent HOST HOW  how a host answers: at once (1 ms), mute, or after a time ("300ms")
//	pass D          virtual time passes
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := newStage()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.do(t, d)
			return s.Record()
		})
	})
}

type stage struct {
	*envtest.Board
	r       *Requests
	nodes   *absent.Nodes
	began   mad.Time
	last    mad.Time // of the last answer
	delay   map[int32]time.Duration
	answers []answer
}

type answer struct {
	at mad.Time
	p  mad.Packet
}

func newStage() *stage {
	s := &stage{Board: envtest.New(4), delay: map[int32]time.Duration{}}
	s.Output = s
	s.Config.SMPTimeout = 200 * time.Millisecond
	s.Engine = mad.NewEngine(mad.Config{Window: 64, Timeout: s.Config.SMPTimeout})
	s.Phase = notice.PhaseReadback
	s.PhaseStart, s.began = s.Now, s.Now
	s.nodes = absent.New(&s.Env, absent.Needs{VPorts: s})
	s.r = New(&s.Env, s.nodes)
	return s
}

func (s *stage) All() []*vport.Adapter           { return nil }
func (s *stage) Unsure(list []ib.GUID) []ib.GUID { return nil }

// Send implements env.Output: agents answer when it is time.
func (s *stage) Send(p *mad.Packet) {
	m := (*ib.MAD)(p.Data[:ib.MADLen])
	n := int32(-1)
	for i := range s.Fabric.Nodes {
		if string(s.Fabric.Path(s.Fabric.Nodes[i].Path)) == string(smp.Path(m)) {
			n = int32(i)
		}
	}
	s.Printf("%v: send to %s\n", s.Now.Sub(s.began), s.Fabric.Nodes[n].Desc)
	delay, known := s.delay[n]
	if !known {
		delay = time.Millisecond
	}
	if delay < 0 {
		return
	}
	reply := *m
	reply.SetMethod(ib.MethodGetResp)
	smp.SetDirection(&reply, true)
	s.Fabric.Nodes[n].Info.Put(smp.Data(&reply))
	s.answers = append(s.answers, answer{s.Now.Add(delay), mad.Packet{Addr: p.Addr, Data: reply[:]}})
}

func (s *stage) do(t *testing.T, d *datadriven.TestData) {
	arg := func(i int) string { return d.CmdArgs[i].Key }
	switch d.Cmd {
	case "ask":
		p := s.Host(t, arg(0))
		s.Pending++
		s.Ask(work.Make(work.OpReread, p.Node, p.Num, 0), smp.AttrNodeInfo, 0, mad.Normal)
	case "want":
		s.r.Want()
	case "agent":
		n := s.Host(t, arg(0)).Node
		switch arg(1) {
		case "mute":
			s.delay[n] = -1
		case "at-once":
			delete(s.delay, n)
		default:
			s.delay[n] = s.duration(t, arg(1))
		}
	case "pass":
		s.run(s.Now.Add(s.duration(t, arg(0))))
	default:
		t.Fatalf("no such command: %s", d.Cmd)
	}
	s.Engine.Poll(s.Now, s.Env.Output.Send)
}

func (s *stage) duration(t *testing.T, text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// run lets time pass, with all that comes due.
func (s *stage) run(end mad.Time) {
	for {
		next, k := min(s.Engine.NextTimer(), s.r.Next(s.last)), -1
		for i := range s.answers {
			if s.answers[i].at < next {
				next, k = s.answers[i].at, i
			}
		}
		if next > end {
			break
		}
		s.Now = max(s.Now, next)
		if k >= 0 {
			p := s.answers[k].p
			s.answers = append(s.answers[:k], s.answers[k+1:]...)
			if comp, kind := s.Engine.Receive(s.Now, &p); kind == mad.KindCompletion {
				s.ended(comp)
			}
		}
		s.Engine.Expire(s.Now, s.ended)
		if s.r.Next(s.last) <= s.Now {
			s.r.Send()
		}
		s.Engine.Poll(s.Now, s.Env.Output.Send)
	}
	s.Now = end
}

// ended does what the manager does with the end of a request.
func (s *stage) ended(comp mad.Completion) {
	it := work.Item(comp.Token)
	if it.Op() == work.OpLate {
		s.r.Answered(it, &comp)
		return
	}
	name := s.Fabric.Nodes[it.Node()].Desc
	s.Finish()
	s.last = s.Now
	if comp.Err == nil {
		s.Printf("%v: %s answered\n", s.Now.Sub(s.began), name)
		return
	}
	s.Printf("%v: %s did not answer %d tries\n", s.Now.Sub(s.began), name, comp.Tries)
	if comp.Hurried {
		s.Fabric.Nodes[it.Node()].Flags |= topo.NodeUnseen
		s.nodes.Silent(s.Fabric.Nodes[it.Node()].Info.NodeGUID)
		s.r.Unanswered(it, &comp)
	}
}
