package check

import (
	"heddle/fabric"
	"heddle/route"
)

// Proof is a verdict that can be carried over a change of the fabric or the
// tables. It is immutable: Update leaves it as it is and makes a new one, so
// that several can follow from one, and any number of goroutines may use it.
type Proof struct {
	g      *fabric.Graph
	t      *route.Tables
	report *Report
}

// Prove judges t for g as Verify does and remembers what Update needs.
func Prove(g *fabric.Graph, t *route.Tables, o Options) *Proof {
	return &Proof{g: g, t: t, report: Verify(g, t, o)}
}

// Report is what Verify would say. The caller must not change it.
func (p *Proof) Report() *Report { return p.report }

// Err is nil if the tables may be installed, else says why not.
func (p *Proof) Err() error { return p.report.Err() }

// Update judges t for g, given that p holds for the graph and the tables
// before; d is fabric.Diff of the two graphs. The report is Verify's.
func (p *Proof) Update(g *fabric.Graph, d *fabric.Delta, t *route.Tables, o Options) *Proof {
	return Prove(g, t, o)
}
