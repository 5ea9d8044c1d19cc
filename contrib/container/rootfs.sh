#!/bin/sh
# rootfs.sh HEDDLE FILE: the contents of the image, from the static program HEDDLE. Equal programs
# give equal bytes.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
chmod 755 "$dir"
mkdir -p "$dir/usr/bin" "$dir/var/lib/heddle" "$dir/etc"
install -m 755 "$1" "$dir/usr/bin/heddle"
chmod 700 "$dir/var/lib/heddle"
echo 'heddle:x:65532:65532::/var/lib/heddle:/sbin/nologin' >"$dir/etc/passwd"
echo 'heddle:x:65532:' >"$dir/etc/group"
set -- "$2" --sort=name --format=gnu --mtime="@${SOURCE_DATE_EPOCH:-0}" --numeric-owner -C "$dir"
out=$1
shift
tar -cf "$out" --owner=0 --group=0 "$@" --exclude=./var/lib/heddle .
tar -rf "$out" --owner=65532 --group=65532 "$@" ./var/lib/heddle
