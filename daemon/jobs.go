package daemon

import (
	"runtime"

	"golang.org/x/sys/unix"

	"heddle/sm"
)

// compute runs a routing job, one at a time. While the subnet is up a core is
// left to the SA; until then nobody can ask it anything.
func (d *Daemon) compute(j *sm.Job) {
	d.jobSlot <- struct{}{}
	workers := d.cores
	if d.upAt.Load() != 0 {
		workers = max(1, workers-1)
		giveWay()
	}
	r := j.Run(workers)
	<-d.jobSlot
	d.jobs <- r
}

// jobNice is how far a routing job stands back behind the threads that answer.
// Less, and requesters wait for its time slices; much more, and the collector
// waits for it when it must stop all threads.
const jobNice = 10

// giveWay lowers the priority of the thread of the calling goroutine, and of no
// other: the thread ends with the goroutine. Where processors are few, or busy
// with other programs, one core too many for the job is one too few for the SA.
func giveWay() {
	runtime.LockOSThread() // and never unlock
	// It cannot fail for one's own thread; if it did, the job would only be in
	// the way.
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), jobNice)
}
