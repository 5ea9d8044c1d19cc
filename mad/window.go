package mad

// window bounds the requests in flight. It grows by one for every answer up
// to the threshold where it last met loss, then by one for every window of
// answers, and loses a quarter when requests are lost.
//
// A silent node is not loss: its requests never get an answer, and shrinking
// the window for it would slow down the whole sweep. So a time-out alone
// changes nothing. Only an answer to a repeated request tells that the first
// one was lost on the way. (When everything is lost, the growing time-outs
// hold the requests back.)
type window struct {
	size, max int
	threshold int
	acks      int
	cut       Time // requests sent before this have had their say
}

func (w *window) init(size, limit int) {
	*w = window{size: size, max: limit, threshold: limit, cut: -1 << 63}
}

// onAnswer notes an answer; lost tells that an earlier try of the request,
// first sent at sent, timed out.
func (w *window) onAnswer(now, sent Time, lost bool) {
	if lost {
		if sent > w.cut {
			w.size = max(w.size*3/4, 1)
			w.threshold, w.acks, w.cut = w.size, 0, now
		}
		return
	}
	if w.size >= w.max {
		return
	}
	w.acks++
	if w.size < w.threshold || w.acks >= w.size {
		w.size++
		w.acks = 0
	}
}
