// Package job computes what a subnet manager writes to the forwarding tables of its switches: it
// routes, proves the tables (route/check), adds multicast trees (route/mcast) and plans the
// transition from the installed tables (route/transition). A Job may also move LIDs without routing
// anew (route/move), and a Plan predicts what a manager would do after a fault (Forecast).
//
// A Job is a pure function of its fields, which are immutable. The manager's shell runs it on a
// bounded pool and returns its Result as an event; neither depends on when it runs or on how many
// workers it has.
//
// Tables that cannot be reached without a wait are approached in rounds: the first job connects the
// broken pairs by tables between the two (repair.go), and the jobs after it take a part of the way
// each, when the fabric is quiet.
package job
