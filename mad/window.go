package mad

// window bounds the requests in flight. It grows by one for every answer up
// to the threshold where it last met loss, then by one for every window of
// answers, and is halved when requests are lost.
//
// A silent node is not loss: its requests never get an answer, and shrinking
// the window for it would slow down the whole sweep. So a time-out alone
// halves nothing. Only an answer to a repeated request tells that the first
// one was lost on the way; and, for the case that everything is lost, a whole
// window of time-outs without any answer between them.
type window struct {
	size, max int
	threshold int
	acks      int
	silent    int  // time-outs since the last answer
	cut       Time // requests sent before this have had their say
}

func (w *window) init(size, limit int) {
	*w = window{size: size, max: limit, threshold: limit, cut: -1 << 63}
}

// onAnswer notes an answer; lost tells that an earlier try of the request,
// first sent at sent, timed out.
func (w *window) onAnswer(now, sent Time, lost bool) {
	w.silent = 0
	if lost {
		if sent > w.cut {
			w.shrink(now, max(w.size/2, 1))
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

func (w *window) onTimeout(now Time) {
	w.silent++
	if w.silent >= 2*w.size+2 {
		w.shrink(now, max(w.size/2, 1))
	}
}

func (w *window) shrink(now Time, size int) {
	w.size, w.threshold = size, size
	w.acks, w.silent = 0, 0
	w.cut = now
}
