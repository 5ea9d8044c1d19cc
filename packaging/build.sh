#!/usr/bin/env bash
# build.sh DIR: the packages heddle and heddle-etcd as deb and rpm, into DIR. Equal sources, Go
# version, PACKAGE_VERSION and SOURCE_DATE_EPOCH give equal bytes.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
out=$(realpath -m "$1")
cd "$root"

PACKAGE_VERSION=${PACKAGE_VERSION:-$(packaging/version.sh)}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
PACKAGE_ARCH=${PACKAGE_ARCH:-$(go env GOARCH)}
PACKAGE_MAINTAINER=${PACKAGE_MAINTAINER:-Heddle maintainers <maintainers@heddle.invalid>}
PACKAGE_TIME=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
day=$(date -u -d "@$SOURCE_DATE_EPOCH" +%F)
STAGE=$(mktemp -d)
trap 'rm -rf "$STAGE"' EXIT
umask 022

export CGO_ENABLED=0
flags=(-trimpath -buildvcs=false -ldflags "-s -w -X heddle/internal/version.Version=$PACKAGE_VERSION")
if [ -n "${PACKAGE_BIN:-}" ]; then # a directory with both programs
  cp "$PACKAGE_BIN/heddle" "$PACKAGE_BIN/heddle-etcd" "$STAGE"
else
  GOARCH=$PACKAGE_ARCH go build "${flags[@]}" -o "$STAGE/heddle" ./cmd/heddle
  (cd cmd/heddle-etcd && GOARCH=$PACKAGE_ARCH go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$STAGE/heddle-etcd" .)
fi

# One that this machine can run writes the man pages and the completions.
host=$STAGE/heddle
if [ "$PACKAGE_ARCH" != "$(go env GOHOSTARCH)" ]; then
  host=$STAGE/host
  GOARCH=$(go env GOHOSTARCH) go build "${flags[@]}" -o "$host" ./cmd/heddle
fi
share=$STAGE/docs/heddle/usr/share
share_etcd=$STAGE/docs/heddle-etcd/usr/share
mkdir -p "$share/man" "$share/doc/heddle/docs/format" "$share_etcd/man/man8" "$share_etcd/doc/heddle-etcd"
"$host" man --date "$day" "$share/man"
sed "s/@DATE@/$day/; s/@VERSION@/$PACKAGE_VERSION/" packaging/heddle-etcd.8 >"$share_etcd/man/man8/heddle-etcd.8"
gzip -9n "$share"/man/man?/* "$share_etcd"/man/man8/*
mkdir "$STAGE/completion"
"$host" completion bash >"$STAGE/completion/heddle"
"$host" completion zsh >"$STAGE/completion/_heddle"
"$host" completion fish >"$STAGE/completion/heddle.fish"

# The documents, and the licenses of the modules in the programs.
cp README.md CHANGELOG.md packaging/copyright "$share/doc/heddle"
cp docs/*.md "$share/doc/heddle/docs"
cp docs/format/*.md "$share/doc/heddle/docs/format"
cp packaging/copyright "$share_etcd/doc/heddle-etcd"
find "$share/doc" -name '*.md' -size +3k -exec gzip -9n {} +
licenses() {
  echo "go $(go env GOVERSION)"
  cat "$(go env GOROOT)/LICENSE"
  GOARCH=$PACKAGE_ARCH go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' . | sort -u |
    while read -r path version dir; do
      printf '\n%s\n%s %s\n\n' "$(printf '=%.0s' {1..78})" "$path" "$version"
      cat "$dir"/LICENSE* "$dir"/COPYING* "$dir"/NOTICE* 2>/dev/null || true
    done
}
(cd cmd/heddle && licenses) | gzip -9n >"$share/doc/heddle/third-party.gz"
(cd cmd/heddle-etcd && licenses) | gzip -9n >"$share_etcd/doc/heddle-etcd/third-party.gz"
changelog() {
  printf '%s (%s) unstable; urgency=medium\n\n  * %s\n\n -- %s  %s\n' \
    "$1" "$PACKAGE_VERSION" "$2" "$PACKAGE_MAINTAINER" "$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n
}
changelog heddle 'What changed: CHANGELOG.md.gz beside this file.' >"$share/doc/heddle/changelog.gz"
changelog heddle-etcd 'What changed: CHANGELOG.md.gz of the package heddle.' >"$share_etcd/doc/heddle-etcd/changelog.gz"
cat >"$STAGE/changelog.yaml" <<EOF
- semver: $PACKAGE_VERSION
  date: $PACKAGE_TIME
  packager: $PACKAGE_MAINTAINER
  changes:
    - note: "What changed: /usr/share/doc/heddle/CHANGELOG.md.gz"
EOF
find "$STAGE" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

mkdir -p "$out"
for name in heddle heddle-etcd; do
  text=$(<"packaging/$name.nfpm.yaml") # nfpm itself would replace variables in some places alone
  for v in STAGE PACKAGE_VERSION PACKAGE_ARCH PACKAGE_MAINTAINER PACKAGE_TIME; do
    text=${text//"\${$v}"/${!v}}
  done
  docs=$(cd "$STAGE/docs/$name" && find . -type f | LC_ALL=C sort |
    sed "s|^\\./\\(.*\\)|  - {src: \"$STAGE/docs/$name/\\1\", dst: \"/\\1\", type: doc}|")
  text=${text/'  - ${DOCS}'/"$docs"}
  # Documentation has a mark in rpms alone. The changelog is in Debian's form as a file of ours.
  grep -v '/doc/.*/changelog.gz' <<<"$text" >"$STAGE/$name.rpm.yaml"
  sed 's/, type: doc}/}/; /^changelog:/d' <<<"$text" >"$STAGE/$name.deb.yaml"
  for kind in deb rpm; do
    go tool -modfile=tools/packages.mod nfpm package -f "$STAGE/$name.$kind.yaml" -p $kind -t "$out"
  done
done
