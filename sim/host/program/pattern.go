package program

// Patterns of parallel programs, as steps of each rank.

// PingPong has ranks a and b of n exchange messages, so many times.
func PingPong(n, a, b, bytes, times int) [][]Step {
	steps := make([][]Step, n)
	for range times {
		steps[a] = append(steps[a], Step{To: []int{b}, From: []int{b}, Bytes: bytes})
		steps[b] = append(steps[b], Step{From: []int{a}}, Step{To: []int{a}, Bytes: bytes})
	}
	return steps
}

// Ring has each rank send to both neighbors in the given order and wait for theirs,
// so many times: a ring of b_eff. order is a permutation of the ranks.
func Ring(order []int, bytes, times int) [][]Step {
	n := len(order)
	steps := make([][]Step, n)
	for i, r := range order {
		near := []int{order[(i+1)%n], order[(i+n-1)%n]}
		for range times {
			steps[r] = append(steps[r], Step{To: near, From: near, Bytes: bytes})
		}
	}
	return steps
}

// RingInTurn is Ring with a step for each direction: to the next rank, and from the one before; then
// the other way round.
func RingInTurn(order []int, bytes, times int) [][]Step {
	n := len(order)
	steps := make([][]Step, n)
	for i, r := range order {
		next, before := []int{order[(i+1)%n]}, []int{order[(i+n-1)%n]}
		for range times {
			steps[r] = append(steps[r], Step{To: next, From: before, Bytes: bytes}, Step{To: before, From: next, Bytes: bytes})
		}
	}
	return steps
}

// AllToAll has n ranks compute, then send a block to each other, so many times: the
// shape of NAS IS.
func AllToAll(n, bytes, times int, compute Time) [][]Step {
	steps := make([][]Step, n)
	for r := range steps {
		var others []int
		for j := 1; j < n; j++ {
			others = append(others, (r+j)%n)
		}
		for range times {
			steps[r] = append(steps[r], Step{Compute: compute, To: others, From: others, Bytes: bytes})
		}
	}
	return steps
}

// Compute has n ranks compute, and reduce a few bytes to rank 0 at the end: the
// shape of NAS EP.
func Compute(n, bytes int, compute Time) [][]Step {
	steps := make([][]Step, n)
	var others []int
	for r := 1; r < n; r++ {
		others = append(others, r)
		steps[r] = []Step{{Compute: compute, To: []int{0}, Bytes: bytes}}
	}
	steps[0] = []Step{{Compute: compute, From: others}}
	return steps
}

// Requests has rank 0 of n be the server: each client sends a request, and waits for
// an answer after the server's work, so many times.
func Requests(n, request, answer, times int, work Time) [][]Step {
	steps := make([][]Step, n)
	for range times {
		for c := 1; c < n; c++ {
			steps[c] = append(steps[c], Step{To: []int{0}, Bytes: request, From: []int{0}})
			steps[0] = append(steps[0], Step{From: []int{c}}, Step{Compute: work, To: []int{c}, Bytes: answer})
		}
	}
	return steps
}
