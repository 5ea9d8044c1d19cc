#!/usr/bin/env bash
# The race detector over the packages that share something between goroutines,
# and over the tests that share routing out over workers. It needs a C compiler.
set -uo pipefail
export CGO_ENABLED=1

if ! why=$(printf '#include <stdlib.h>\nint main(void) { return 0; }\n' | "$(go env CC)" -x c -o /dev/null - 2>&1); then
  why="needs a C compiler: $(tail -n 1 <<<"$why")"
  case ",${HEDDLE_REQUIRE:-}," in
  *,race,*) echo "race is required (HEDDLE_REQUIRE) but $why"; exit 1 ;;
  esac
  echo "skipped: $why"
  exit 0
fi
# Left out: what measures memory, what runs real programs, which it cannot see, and long runs in virtual
# time, where one goroutine does all.
go test -race -short -vet=off -timeout 30m -skip 'TestMemoryFlat|TestCrowd|TestStampede|Conformance|OpenSM|Tools|TestPing' \
  ./agent/live ./api ./api/listen ./daemon ./daemon/process ./flood/live ./sim/ibsimd ./sim/live ./logs ./store ./store/etcd ./transport/rmpp ./webhook &&
  go test -race -vet=off -timeout 30m -run Workers ./traffic/study ./route/check ./route/transition ./route/engine/{dor,ftree,torus,vftree}
