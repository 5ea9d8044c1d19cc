package api

// Signals is the body of /v1/signals: what subscribers to traps 68 and 69 were notified of.
type Signals struct {
	Mode       string       `json:"mode" doc:"setting signal"`
	Generation string       `json:"generation" doc:"newest generation of the path state: history, number"`
	Settled    bool         `json:"settled" doc:"it is stored that all subscribers have acknowledged the newest generation"`
	Due        int          `json:"due" doc:"subscribers that have not acknowledged it"`
	Levels     int          `json:"levels_due" doc:"of them, those that have to learn a service level"`
	Unanswered int          `json:"unanswered" doc:"Reports about paths that are outstanding"`
	Changes    uint64       `json:"changes" doc:"changes of paths since the start"`
	All        uint64       `json:"reports_of_any" doc:"Reports that any path may have changed"`
	Paths      uint64       `json:"reports_of_one" doc:"Reports of one path, or of the paths to one GID"`
	Failed     uint64       `json:"reports_failed" doc:"Reports that were not answered; they are repeated"`
	Spared     uint64       `json:"spared" doc:"times that a subscriber was not notified because it held none of the changed paths"`
	Hosts      []SignalHost `json:"hosts" doc:"subscribers, those first that have not acknowledged the newest generation"`
}

// SignalHost is a subscriber.
type SignalHost struct {
	GID        string  `json:"gid"`
	LID        int     `json:"lid"`
	QP         uint32  `json:"qp"`
	Node       string  `json:"description,omitempty"`
	Generation string  `json:"generation" doc:"the one that it acknowledged"`
	State      string  `json:"state" doc:"notified, due, sent, silent (it did not answer the last Report) or absent"`
	Level      bool    `json:"level_due" doc:"it has to learn a service level"`
	Failed     int     `json:"failed" doc:"consecutive Reports without a response"`
	Late       float64 `json:"late_seconds,omitempty" doc:"how long it has been due"`
}
