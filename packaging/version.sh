#!/bin/sh
# Prints the version of packages: the newest of CHANGELOG.md, and if there is work after it, the
# time and the commit of that: 0.1.0+git20261123T101500.1a2b3c4d sorts behind 0.1.0 and before 0.1.1.
set -eu
cd "$(dirname "$0")/.."
released=$(sed -n 's/^## \([0-9][0-9.]*\).*/\1/p' CHANGELOG.md | head -n 1)
newest=$(sed -n 's/^## //p' CHANGELOG.md | head -n 1)
case $newest in
"$released" | "$released "*) echo "$released" ;;
*)
	if commit=$(git rev-parse --short=8 HEAD 2>/dev/null); then
		when=$(TZ=UTC git log -1 --format=%cd --date=format-local:%Y%m%dT%H%M%S)
		[ -z "$(git status --porcelain --untracked-files=no)" ] || commit=$commit.dirty
		echo "$released+git$when.$commit"
	else
		echo "$released+unreleased"
	fi
	;;
esac
