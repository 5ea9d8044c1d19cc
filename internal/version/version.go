// Package version holds the version that the build stamps into the binary.
package version

// Version is set by the linker; "dev" in a plain go build.
var Version = "dev"
