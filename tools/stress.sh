#!/usr/bin/env bash
# Runs the tests of a package as on a machine that takes the processor away: all processes of the
# run, or a random third of them, are stopped again and again. What fails depends on real time.
#
#   tools/stress.sh ./agent/live -test.count=20
#   WHICH=some STOP=0.5 RUN=0.25 RACE=1 tools/stress.sh ./daemon -test.run Hostile -test.short
set -uo pipefail
pkg=${1:?usage: tools/stress.sh PACKAGE [-test.FLAG...]}
shift
stop=${STOP:-0.1} run=${RUN:-0.2} which=${WHICH:-all}
dir=$(mktemp -d)
session=
finish() {
  rm -rf "$dir"
  [ -n "$session" ] && pkill -KILL -s "$session"
}
trap finish EXIT
trap 'exit 130' INT TERM
race=()
[ -n "${RACE:-}" ] && race=(-race) && export CGO_ENABLED=1
go test -vet=off "${race[@]}" -c -o "$dir/stress.test" "$pkg" || exit 1

cd "$(go list -f '{{.Dir}}' "$pkg")" || exit 1
setsid "$dir/stress.test" -test.shuffle=on "$@" &
session=$!
while sleep "$run" && kill -0 $session 2>/dev/null; do
  list=()
  for p in $(pgrep -s $session); do
    [ "$which" = some ] && [ $((RANDOM % 3)) -gt 0 ] || list+=("$p")
  done
  [ ${#list[@]} -eq 0 ] && continue
  kill -STOP "${list[@]}" 2>/dev/null
  sleep "$stop"
  kill -CONT "${list[@]}" 2>/dev/null
done
wait $session
