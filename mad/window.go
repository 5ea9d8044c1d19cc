package mad

// window bounds the requests in flight. It grows by one for every response up
// to the threshold where it last met loss, then by one for every window of
// responses, and shrinks by a quarter when requests are lost.
//
// A silent node does not count as loss: its requests never get a response, and
// a smaller window would slow the whole sweep. So a time-out alone changes
// nothing. Only a response to a repeated request proves that the first try was
// lost. (If everything is lost, the growing time-outs limit the requests.)
type window struct {
	size, max int
	threshold int
	acks      int
	cut       Time // losses of requests sent before this are already accounted for
}

func (w *window) init(size, limit int) {
	*w = window{size: size, max: limit, threshold: limit, cut: -1 << 63}
}

// onAnswer records a response; lost reports that an earlier try of the request,
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
