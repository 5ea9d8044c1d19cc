package replica

var whyText = [...]string{
	WhySilence: "the active manager was silent", WhyHandover: "handed over", WhyStale: "silence, and entries may be missing",
	WhyAsked: "asked for, and entries may be missing", WhyWasAlone: "it was alone before", WhyNewer: "it has the newer entries",
	WhySuperseded: "the other manager has a newer term", WhyDisk: "the disk failed", WhyPort: "the port is down",
	WhyLate: "it did not reach the other manager's port in time", WhyChallenged: "its port names the other manager",
	WhyOtherAlone: "the other manager did not follow, and may go on alone",
}

// String implements fmt.Stringer.
func (w Why) String() string {
	if int(w) < len(whyText) {
		return whyText[w]
	}
	return ""
}
