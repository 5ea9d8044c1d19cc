#!/usr/bin/env bash
# Every fuzz target for a number of executions: not for a time, which on a busy
# machine may end before the first. An input that fails is kept in the
# package's testdata/fuzz.
set -uo pipefail
execs=${1:-1000}
slow=${2:-20} # where one execution is a routing job
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
failed=0 targets=0

for p in $(grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u); do
  go test -vet=off -c -fuzz=. -o "$out/fuzz.test" "$p" || exit 1
  n=$execs
  [ "$p" = ./route/matrix ] && n=$slow
  for f in $(cd "$p" && "$out/fuzz.test" -test.list '^Fuzz'); do
    targets=$((targets + 1))
    began=$SECONDS
    if ! log=$(cd "$p" && "$out/fuzz.test" -test.run '^$' -test.fuzz "^$f\$" -test.fuzztime "${n}x" \
      -test.fuzzminimizetime 50x -test.fuzzcachedir "$out/cache" -test.timeout 9m 2>&1); then
      printf -- '--- %s %s\n%s\n' "$p" "$f" "$log"
      failed=$((failed + 1))
    fi
    [ $((SECONDS - began)) -lt 10 ] || echo "$p $f took $((SECONDS - began)) s"
  done
done
echo "$targets fuzz targets, $execs executions each ($slow where each is a routing job), $failed failed"
[ $failed -eq 0 ] && [ $targets -gt 0 ]
