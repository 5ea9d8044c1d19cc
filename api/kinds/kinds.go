// Package kinds has the names of the kinds of events, and what a list of them matches.
package kinds

import (
	"fmt"
	"slices"
	"strings"

	"heddle/internal/nearest"
)

// all are the kinds of events that this version has. A test compares them with the sources.
var all = strings.Fields(`
alias_changed alias_refused audit audit_cut audit_failed cabling_plan checkpoint
congestion_capacity congestion_foreign congestion_key congestion_marking congestion_mode
congestion_redirect congestion_settings congestion_silent congestion_unkept drain_kept
duplicate_guid enforce_off engine_passed events_cut events_lost events_saved events_unsaved
files_unread finding_closed finding_opened foreign_change gave_way group_created
group_deleted group_refused ha_active ha_alone ha_copied ha_disk ha_fork ha_fork_deleted ha_left
ha_left_alone ha_left_early ha_other_master ha_paired ha_port ha_relayed ha_sa_key
ha_settings_alike ha_settings_differ ha_standby ha_versions handover history_failed
hotspot_closed hotspot_opened internal issm kept levels_unanswered lid_conflict link_down
link_held link_mismatch link_released link_up log_cut manager_level members_left mkey_refused
moved no_lid node_answers node_garbage node_gone node_new node_silent open_configuration
other_sm partitions partitions_applied partitions_differ partitions_refused partitions_waiting
perf_cleared perf_period perf_redirect perf_refused perf_silent perf_stuck persist_failed
pkey_quarantined pkey_refused port_action port_down port_requested port_rule port_unhealthy
record_damaged repair repath report_failed route_refused routed security send_failed
service_deleted service_ended service_expired service_registered set_failed sm_lid stale_mad
state store_converted subnet_up subscribed subscription_dropped sweep_end sweep_start
syslog_away syslog_back table_too_small takeover tokens_unread too_far transient_cycle trap
trap_false trap_not_forwarded trap_storm unsafe unsaved_full unsubscribed vm_attached
vm_created vm_deleted vm_detached vm_migrated vm_migrating vm_notices_cut vm_record vm_refused
vm_resumed vm_rolled_back vm_store vport_down vport_duplicate vport_refused vport_up
webhook_marks
`)

// All returns the kinds of events that this version has, sorted.
func All() []string { return slices.Clone(all) }

// Match reports whether a list of kinds, in which a final * stands for anything, has a kind. An
// empty list has all.
func Match(list []string, kind string) bool {
	for _, k := range list {
		if prefix, any := strings.CutSuffix(k, "*"); k == kind || any && strings.HasPrefix(kind, prefix) {
			return true
		}
	}
	return len(list) == 0
}

// Check returns an error for a kind, or a beginning with a final *, that no event of this version has.
func Check(kind string) error {
	if slices.ContainsFunc(all, func(k string) bool { return Match([]string{kind}, k) }) {
		return nil
	}
	if name, pattern := strings.CutSuffix(kind, "*"); pattern {
		return fmt.Errorf("kind %q: no kind of events begins so%s", kind, nearest.Hint(name, All()))
	}
	return fmt.Errorf("kind %q: there are no such events%s", kind, nearest.Hint(kind, All()))
}
