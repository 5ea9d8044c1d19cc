package sm

import (
	"heddle/partition"
	"heddle/sm/config"
	"heddle/sm/job"
	"heddle/sm/mastership"
	"heddle/sm/notice"
	"heddle/sm/pkeymgr"
	"heddle/sm/takeover"
	"heddle/sm/topo"
	"heddle/store"
)

// Config is what a manager is told at start. See package config.
type Config = config.Config

// The choices in a Config, as package config has them.
type (
	Transition  = config.Transition
	VirtualMode = config.VirtualMode
	Lanes       = config.Lanes
	PortClass   = config.PortClass
	Enforce     = config.Enforce
)

// The values of those choices.
const (
	TransitionAvailability = config.TransitionAvailability
	TransitionStrict       = config.TransitionStrict
	TransitionDiscard      = config.TransitionDiscard
	TransitionStatic       = config.TransitionStatic
	TransitionStatic2003   = config.TransitionStatic2003

	VirtualOn     = config.VirtualOn
	VirtualOff    = config.VirtualOff
	VirtualIgnore = config.VirtualIgnore

	EnforceBoth = config.EnforceBoth
	EnforceIn   = config.EnforceIn
	EnforceOut  = config.EnforceOut
	EnforceOff  = config.EnforceOff
)

// Defaults returns the configuration of a manager that was told nothing.
func Defaults() Config { return config.Defaults() }

// Float is how the LIDs of a master's port come to that of its successor. See package takeover.
type Float = takeover.Float

// What a Notice tells. See package notice.
type (
	Notice      = notice.Notice
	Kind        = notice.Kind
	Level       = notice.Level
	Where       = topo.Where
	SweepReport = notice.SweepReport
	Phase       = notice.Phase
	Repair      = notice.Repair
	Fault       = notice.Fault
	FaultKind   = notice.FaultKind
	Risk        = notice.Risk
	RiskChannel = notice.RiskChannel
)

// Ally is another manager that has the same stored state. See package mastership.
type Ally = mastership.Ally

// Self is what a manager tells of itself. See package mastership.
type Self = mastership.Self

// What the shell runs for a manager, and what it finds. See package job.
type (
	Job           = job.Job
	JobResult     = job.Result
	Plan          = job.Plan
	PlannedLID    = job.PlannedLID
	PlannedSwitch = job.PlannedSwitch
	PlannedSMPs   = job.PlannedSMPs
	PlannedStage  = job.PlannedStage
	Forecast      = job.Forecast
	CutLID        = job.CutLID
)

// Errors of Plan.Forecast.
var (
	ErrNoTables = job.ErrNoTables
	ErrCutOff   = job.ErrCutOff
)

// The levels, kinds, phases and faults of package notice.
const (
	Debug                 = notice.Debug
	Info                  = notice.Info
	Warn                  = notice.Warn
	Error                 = notice.Error
	FaultSwitch           = notice.FaultSwitch
	FaultLink             = notice.FaultLink
	FaultTable            = notice.FaultTable
	KindState             = notice.KindState
	KindSubnetUp          = notice.KindSubnetUp
	KindSweepStart        = notice.KindSweepStart
	KindSweepEnd          = notice.KindSweepEnd
	KindNodeNew           = notice.KindNodeNew
	KindNodeGone          = notice.KindNodeGone
	KindLinkUp            = notice.KindLinkUp
	KindLinkDown          = notice.KindLinkDown
	KindNodeSilent        = notice.KindNodeSilent
	KindNodeGarbage       = notice.KindNodeGarbage
	KindDuplicateGUID     = notice.KindDuplicateGUID
	KindLinkMismatch      = notice.KindLinkMismatch
	KindTooFar            = notice.KindTooFar
	KindMKeyRefused       = notice.KindMKeyRefused
	KindLIDConflict       = notice.KindLIDConflict
	KindNoLID             = notice.KindNoLID
	KindTableTooSmall     = notice.KindTableTooSmall
	KindSetFailed         = notice.KindSetFailed
	KindEnginePassed      = notice.KindEnginePassed
	KindRouteRefused      = notice.KindRouteRefused
	KindRouted            = notice.KindRouted
	KindUnsafe            = notice.KindUnsafe
	KindTrap              = notice.KindTrap
	KindTrapStorm         = notice.KindTrapStorm
	KindTrapFalse         = notice.KindTrapFalse
	KindPortUnhealthy     = notice.KindPortUnhealthy
	KindSecurity          = notice.KindSecurity
	KindOtherSM           = notice.KindOtherSM
	KindHandover          = notice.KindHandover
	KindPersistFailed     = notice.KindPersistFailed
	KindPortDown          = notice.KindPortDown
	KindForeignChange     = notice.KindForeignChange
	KindStaleMAD          = notice.KindStaleMAD
	KindLinkHeld          = notice.KindLinkHeld
	KindLinkReleased      = notice.KindLinkReleased
	KindRepath            = notice.KindRepath
	KindPortAction        = notice.KindPortAction
	KindDrainKept         = notice.KindDrainKept
	KindGaveWay           = notice.KindGaveWay
	KindLevelsUnanswered  = notice.KindLevelsUnanswered
	KindManagerLevel      = notice.KindManagerLevel
	KindKept              = notice.KindKept
	KindGroupRefused      = notice.KindGroupRefused
	KindPartitions        = notice.KindPartitions
	KindPartitionsApplied = notice.KindPartitionsApplied
	KindPartitionsWaiting = notice.KindPartitionsWaiting
	KindPartitionsRefused = notice.KindPartitionsRefused
	KindPKeyQuarantined   = notice.KindPKeyQuarantined
	KindPKeyRefused       = notice.KindPKeyRefused
	KindEnforceOff        = notice.KindEnforceOff
	KindMoved             = notice.KindMoved
	KindAliasRefused      = notice.KindAliasRefused
	KindVPortUp           = notice.KindVPortUp
	KindVPortDown         = notice.KindVPortDown
	KindVPortRefused      = notice.KindVPortRefused
	KindVPortDuplicate    = notice.KindVPortDuplicate
	KindRepair            = notice.KindRepair
	KindNodeAnswers       = notice.KindNodeAnswers
	KindSMLID             = notice.KindSMLID
	KindTakeover          = notice.KindTakeover
	KindInternal          = notice.KindInternal
	KindTransientCycle    = notice.KindTransientCycle
	PhaseIdle             = notice.PhaseIdle
	PhaseDiscover         = notice.PhaseDiscover
	PhaseAssign           = notice.PhaseAssign
	PhaseReadback         = notice.PhaseReadback
	PhaseRoute            = notice.PhaseRoute
	PhaseDiscard          = notice.PhaseDiscard
	PhaseDrain            = notice.PhaseDrain
	PhaseDistribute       = notice.PhaseDistribute
	PhaseTop              = notice.PhaseTop
	PhaseLanes            = notice.PhaseLanes
	PhaseArm              = notice.PhaseArm
	PhaseActivate         = notice.PhaseActivate
	PhaseLight            = notice.PhaseLight
	PhaseMove             = notice.PhaseMove
	PhaseUpkeep           = notice.PhaseUpkeep
	PhaseTakeover         = notice.PhaseTakeover
	NumPhases             = notice.NumPhases
)

// PathString prints a directed path as diagnostics take it: 0,1,7.
func PathString(p []byte) string { return topo.PathString(p) }

// ErrOtherPolicy: the policy that was to be replaced is not in force any more. See package pkeymgr.
var ErrOtherPolicy = pkeymgr.ErrOtherPolicy

// StoredPartitions is the policy that a manager stored. See package pkeymgr.
func StoredPartitions(list []store.Record) (*partition.Policy, error) {
	return pkeymgr.StoredPartitions(list)
}
