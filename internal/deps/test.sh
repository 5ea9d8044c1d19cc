#!/usr/bin/env bash
# Runs go test with the arguments given and ends with a list of what was
# skipped and why, so that a skip is never silent. With -v first, the output of
# tests that passed is printed too.
set -uo pipefail
verbose=
[ "${1:-}" = -v ] && verbose=-v && shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# The packages are tested two at a time: on a small machine more would only
# make the tests that talk to real programs wait for each other.
go test -json -p 2 "$@" >"$log"
status=$?

go run ./internal/deps/report $verbose "$log"
report=$?
[ $status -ne 0 ] && exit $status
exit $report
