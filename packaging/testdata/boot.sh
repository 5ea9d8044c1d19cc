#!/bin/sh
# boot.sh ROOT NAME: runs systemd as process 1 of ROOT, in namespaces and in a control group NAME of
# its own. It sees the devices and the /sys of whoever calls it, /sys and /proc/sys to read alone, and
# no network but its loopback. It ends, with all in it, when the caller ends.
set -e
cg=/sys/fs/cgroup
[ ! -d $cg/unified ] || cg=$cg/unified
mkdir -p "$cg/$2"
echo $$ > "$cg/$2/cgroup.procs"
# Not for it: the clock, modules, raw access to devices, this machine's log.
exec setpriv --bounding-set=-sys_module,-sys_time,-sys_rawio,-syslog \
	unshare --cgroup --pid --mount --uts --ipc --net --fork --kill-child sh -ec '
root=$1
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount --rbind /sys "$root/sys"
mount -o remount,bind,ro "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for d in null zero full random urandom tty; do
	: > "$root/dev/$d"
	mount --bind "/dev/$d" "$root/dev/$d"
done
mkdir "$root/dev/shm" "$root/dev/pts" "$root/dev/infiniband"
[ ! -d /dev/infiniband ] || mount --bind /dev/infiniband "$root/dev/infiniband"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
hostname heddle-test
cd "$root"
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot . /lib/systemd/systemd
' sh "$1"
