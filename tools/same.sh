#!/bin/bash
# same.sh BASE [TESTS]: does the work tree do what commit BASE does, datagram by datagram?
#
# The tests of lab whose names match TESTS (all if left out) run at both, and every cluster that
# they make leaves a line of hashes: of each datagram that its managers send, of what they store
# and of what they tell, all with the virtual time. Lines that differ are shown, and the exit
# status is 1. Hashes of words differ where messages were reworded; look at `wire` and `store` there.
# HEDDLE_SEEDS=N lengthens the campaigns.
set -euo pipefail
cd "$(dirname "$0")/.."
base=${1:?usage: tools/same.sh BASE [TESTS]}
tests=${2:-.}
dir=$(mktemp -d)
trap 'git worktree remove --force "$dir/base" 2>/dev/null || true; rm -rf "$dir"' EXIT
git worktree add -q --detach "$dir/base" "$base"
go test -trimpath -c -o "$dir/now.test" ./lab
(cd "$dir/base" && go test -trimpath -c -o "$dir/base.test" ./lab)
record() { # test binary, directory, file
	(cd "$2/lab" && HEDDLE_RECORD=$3 "$1" -test.timeout 60m -test.run "$tests" >"$3.log" 2>&1) || { tail -20 "$3.log"; echo "tests fail at $2"; }
}
record "$dir/base.test" "$dir/base" "$dir/base.txt"
record "$dir/now.test" . "$dir/now.txt"
if diff "$dir/base.txt" "$dir/now.txt"; then
	echo "$(wc -l <"$dir/now.txt") clusters, all the same"
else
	echo "they differ (< $base, > work tree)"
	exit 1
fi
