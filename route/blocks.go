package route

// BlockDiff names one LFT block of one switch, the unit of one
// Set(LinearForwardingTable).
type BlockDiff struct {
	Switch int32  // index in the Graph
	Block  uint16 // LIDs 64·Block … 64·Block+63
}
