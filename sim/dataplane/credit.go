package dataplane

// Credits in closed form. A sender counts the blocks of the buffer at the far
// end that it has not filled (outLane.avail). A packet that is read there gives
// them back block by block, which one record describes; the sender learns of
// each after outLane.tau. No event stands for a credit unless a packet waits for
// it.
//
// On the wire a flow control packet carries FCCL, the blocks received plus those
// free, and the sender may send if (FCCL − FCTBS − need) mod 4096 ≤ 2048 (IBA
// §7.9.4.4). FCCL − FCTBS is what available returns, and at most 2048 blocks are
// ever advertised, so the rule is available ≥ need.

// addRead records that a packet of so many blocks leaves the buffer behind lane
// ol between start and end.
func (e *part) addRead(ol int32, start, end Time, rate Rate, blocks uint16) {
	l := &e.outLanes[ol]
	e.fold(l)
	i := e.newRead()
	e.reads[i] = read{start: start, end: end, rate: rate, blocks: int32(blocks), next: -1}
	if l.readHead < 0 {
		l.readHead = i
	} else {
		e.reads[l.readTail].next = i
	}
	l.readTail = i
	if l.need != 0 {
		e.awaitCredits(ol, l)
	}
}

// giveBack records at the sender that a packet leaves lane of an input.
func (e *part) giveBack(in *inPort, lane uint8, start, end Time, rate Rate, blocks uint16) {
	ol := in.up*e.stride + int32(lane)
	if in.far {
		e.mailRead(in.up, readMail{lane: ol, start: start, end: end, rate: rate, blocks: blocks})
		return
	}
	e.addRead(ol, start, end, rate, blocks)
}

// fold forgets reads whose blocks are all back.
func (e *part) fold(l *outLane) {
	for l.readHead >= 0 {
		r := &e.reads[l.readHead]
		if r.end+l.tau > e.now {
			return
		}
		l.avail += r.blocks
		i := l.readHead
		l.readHead = r.next
		r.next = e.freeRead
		e.freeRead = i
	}
}

// available is the number of blocks that the sender may fill now.
func (e *part) available(l *outLane) int32 {
	e.fold(l)
	n := l.avail
	for i := l.readHead; i >= 0; i = e.reads[i].next {
		n += e.reads[i].freed(e.now - l.tau)
	}
	return n
}

// covered reports whether the lane has credits for need blocks.
func (e *part) covered(l *outLane, need uint16) bool {
	return l.avail >= int32(need) || e.available(l) >= int32(need)
}

// coveredAt is when the reads that are known will have given need blocks, Never
// if they will not.
func (e *part) coveredAt(l *outLane, need int32) Time {
	n, last := l.avail, Time(0)
	for i := l.readHead; i >= 0; i = e.reads[i].next {
		r := &e.reads[i]
		if r.start < last || r.next >= 0 && e.reads[r.next].start < r.end {
			return e.coveredSearch(l, need)
		}
		if n+r.blocks >= need {
			return r.when(need-n) + l.tau
		}
		n += r.blocks
		last = r.end
	}
	return Never
}

// coveredSearch is coveredAt for reads that overlap.
func (e *part) coveredSearch(l *outLane, need int32) Time {
	at := func(u Time) (n int32) {
		n = l.avail
		for i := l.readHead; i >= 0; i = e.reads[i].next {
			n += e.reads[i].freed(u)
		}
		return n
	}
	lo, hi := Time(0), Time(0)
	for i := l.readHead; i >= 0; i = e.reads[i].next {
		hi = max(hi, e.reads[i].end)
	}
	if at(hi) < need {
		return Never
	}
	for lo < hi {
		if mid := lo + (hi-lo)/2; at(mid) >= need {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo + l.tau
}

// awaitCredits schedules the event at which the waiting packet of a lane can go,
// if that is known. If not, the next read at the far end calls it again.
func (e *part) awaitCredits(ol int32, l *outLane) {
	t := e.coveredAt(l, int32(l.need))
	if t == Never {
		e.armDetector()
	} else if t < l.armedAt {
		l.armedAt = max(t, e.now)
		e.push(l.armedAt, evCredit, ol, 0)
	}
}
