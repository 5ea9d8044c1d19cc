#!/usr/bin/env bash
# gofumpt, go vet, go fix and staticcheck. The tools that are not Go's own come
# from the module proxy, pinned in tools/go.mod. Where it cannot be reached they
# are left out, with the reason: that is no fault of the code.
set -uo pipefail
failed=0
tool() { go tool -modfile=tools/go.mod "$@"; }

fmt=(gofmt -l .)
fetched=1
if why=$(go mod download -modfile=tools/go.mod 2>&1); then
  fmt=(tool gofumpt -l .)
else
  fetched=0
fi
list=$("${fmt[@]}") || failed=1
if [ -n "$list" ]; then
  printf 'not formatted (make fmt):\n%s\n' "$list"
  failed=1
fi
go vet ./... || failed=1
go fix -diff ./... || failed=1
if [ $fetched = 1 ]; then
  tool staticcheck ./... || failed=1
else
  printf 'skipped: gofumpt and staticcheck cannot be fetched: %s\n' "$(tail -n 1 <<<"$why")"
fi
exit $failed
