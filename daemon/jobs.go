package daemon

import (
	"runtime"

	"golang.org/x/sys/unix"

	"heddle/sm"
)

// compute runs a routing job, one at a time. While the subnet is up it leaves one processor to
// the SA.
func (d *Daemon) compute(j *sm.Job) {
	d.jobSlot <- struct{}{}
	workers := d.cores
	if d.upAt.Load() != 0 {
		workers = max(1, workers-1)
		if !j.Short() {
			giveWay()
		}
	}
	r := j.Run(workers)
	<-d.jobSlot
	d.jobs <- r
}

// jobNice is the nice value of a routing job. With a lower one, answers wait for time slices of
// the job; with a much higher one, the garbage collector waits for the job when it stops all
// threads.
//
// A short job keeps its priority: a migration waits for it, and a new thread at a low priority has
// to wait for the threads of a garbage collection, and for those of other programs.
const jobNice = 10

// giveWay lowers the priority of the calling goroutine's thread alone; the thread ends with the
// goroutine. It keeps the SA responsive where there are few processors, or other programs use
// them.
func giveWay() {
	runtime.LockOSThread() // and never unlock
	// It cannot fail for the own thread, and a failure would only slow answers.
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), jobNice)
}
