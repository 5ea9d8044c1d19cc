#!/usr/bin/env bash
# upgrade.sh [DIR]: upgrades and downgrades between this version and the older ones of CHANGELOG.md.
#
# Each older version is built from the last commit of its section, in DIR (kept if it is given). It
# manages a simulated fabric, stopped or killed; this version takes over; the older one refuses the
# newer file, and takes over again with a file that 'heddle store import --for' made
# (TestUpgradeFromBuilds, docs/upgrade.md). This also renews the fixtures of TestUpgrade,
# internal/interop/testdata/upgrade. It needs the whole history.
#
# When a section of CHANGELOG.md ends, add it here and to `sections` in
# internal/interop/upgrade_test.go; if the older program would refuse what this one writes, also to
# olderVersions in cmd/heddle/storeolder.go.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${1:-}
if [ -z "$dir" ]; then
  dir=$(mktemp -d)
  trap 'rm -rf "$dir"' EXIT
fi
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

while read -r name commit; do
  [ -x "$dir/$name" ] && continue
  echo "building $name ($commit)"
  mkdir "$dir/src"
  git archive "$commit" | tar -x -C "$dir/src"
  (cd "$dir/src" && CGO_ENABLED=0 go build -trimpath -o "$dir/$name" ./cmd/heddle)
  rm -rf "$dir/src"
done <<'END'
01-first-light 179f48a6
02-routes 95ec2eac
03-answers ec7bfbf1
04-0.1.0 ae5c53a4
05-repair-in-place 7f14392e
06-trust 5e8c47ea
07-house d78821b9
08-packets 62e8fffd
09-hosts 30f32e13
10-counters 53b3e519
11-never-down c68c320f
END
HEDDLE_OLD=$dir go test -count=1 -timeout 30m -v -run 'TestUpgradeFromBuilds' ./internal/interop |
  grep -vE '^=== |^ +time='
