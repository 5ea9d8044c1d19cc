package boltdb

import "os"

// NoSync makes Open not wait for the disk, until the function that it returns is called.
func NoSync() func() {
	before := syncFile
	syncFile = func(*os.File) error { return nil }
	return func() { syncFile = before }
}
