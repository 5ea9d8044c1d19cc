#!/usr/bin/env bash
# Installs the Debian packages that the tests compare Heddle with, if they are
# lacking and this user may install them. Without them the tests that need
# them are skipped, and the list at the end of the run says so.
# install.sh packages: also those that test Heddle's packages.
set -euo pipefail

want=(
  opensm:opensm
  osmtest:opensm
  ibsim:ibsim-utils
  smpquery:infiniband-diags
  ibdmchk:ibutils
  prometheus:prometheus
  etcd:etcd-server
  etcdctl:etcd-client
  chromium:chromium
  slurmctld:slurmctld
  scontrol:slurm-client
  mandoc:mandoc
  rsyslogd:rsyslog
  gcc:gcc # for the race detector
)
[ "${1:-}" = packages ] && want+=(
  mmdebstrap:mmdebstrap
  lintian:lintian
  rpmlint:rpmlint
  rpm:rpm # rpmlint reads packages with it
  setpriv:util-linux
)
lack=()
for w in "${want[@]}"; do
  PATH=$PATH:/usr/sbin:/sbin command -v "${w%%:*}" >/dev/null || lack+=("${w##*:}")
done
[ -e /usr/include/stdlib.h ] || lack+=(libc6-dev) # gcc only recommends it
[ ${#lack[@]} -eq 0 ] && exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "deps: lacking ${lack[*]}; install them to run every test (Debian: apt-get install ${lack[*]})" >&2
  exit 0
fi
echo "deps: installing ${lack[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get -qq -o Acquire::Retries=3 update </dev/null
apt-get -qq -y -o Acquire::Retries=3 --no-install-recommends install $(printf '%s\n' "${lack[@]}" | sort -u) </dev/null >/dev/null
