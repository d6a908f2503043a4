#!/bin/busybox sh
# SPDX-License-Identifier: MIT
# What the guest does when it has booted; virtme's init or um-init.sh runs this as root. The host has left its orders in the
# file `job` of the shared directory: shell variables, which __main__.py lists.
# shellcheck shell=dash disable=SC2154
set -eu

share=/run/kbus
# shellcheck source=/dev/null
. "$share/job"

uname -r >"$share/release"

# mount_9p TAG WHERE CACHE
mount_9p() {
	mkdir -p "$2"
	mount -t 9p -o "ro,trans=virtio,version=9p2000.L,cache=$3,msize=512000" "$1" "$2"
}

# Python takes two or three times as long to start from the root that is there, which does no caching. The command therefore
# runs in another one, which has the same files, and empty places to write in.
root=/run/root
if [ "$um" ]; then
	mkdir -p /run/hostfs
	mount -t hostfs -o ro,/ none /run/hostfs
	# cached DIRECTORY WHERE: hostfs forgets each file that nobody has open; overlayfs does not.
	cached() {
		mkdir -p "$2"
		mount -t overlay -o "ro,lowerdir=/run/hostfs$1:/run/lock" overlay "$2"
	}
	cached / "$root"
	writable='/tmp /var/tmp /var/log /var/cache'
else
	mount_9p hostroot "$root" loose
	writable=/tmp
fi
for directory in /dev /proc /sys /run; do
	mount --rbind "$directory" "$root$directory"
done
for directory in $writable; do
	mount -t tmpfs -o mode=1777 tmpfs "$root$directory"
done
if [ "$um" ]; then
	cached "$prefix" "$root$prefix"
	cached "$snapshot" "$root$repo"
else
	mount_9p python "$root$prefix" loose
	mount_9p repo "$root$repo" "$cache"
fi

in_root() {
	chroot "$root/" /usr/bin/env -i -C "$repo" HOME=/tmp TERM="$term" LANG=C.UTF-8 PS1='kbus-vm:\w\$ ' \
		PATH="$prefix/bin:$repo/tests/vm/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
		PYTHONPATH="$repo/python:$repo" PYTHONDONTWRITEBYTECODE=1 RESULTS="$share" "$@"
}

# kmemleak scans when it is asked to, in the end, and not every ten minutes as well.
leaks=/sys/kernel/debug/kmemleak
[ ! -e "$leaks" ] || echo scan=off >"$leaks"

status=0
fail() {
	echo "vm: $*" >&2
	[ "$status" -ne 0 ] || status=125
}

# virtme's init has started udev. What tests do with devices by the hundred would keep it busy for minutes, and
# meanwhile it would set the modes of nodes anew.
[ ! -e /run/udev/control ] || /usr/bin/udevadm control --exit || fail "udev does not stop"
# It goes on with what it has begun, on a slow kernel for half a minute.
for process in /proc/[0-9]*; do
	case $(cat "$process/comm" 2>/dev/null) in
	*udev*) kill -KILL "${process#/proc/}" 2>/dev/null || true ;;
	esac
done

name=$(basename "$module" .ko | tr - _)

# shellcheck disable=SC2086 # several parameters are several words
if [ -n "$module" ] && ! insmod "$share/$module" $module_args; then
	fail "$module cannot be loaded"
elif [ -n "$command" ]; then
	in_root bash -c "$command" </dev/null || status=$?
else
	in_root bash --norc -i || true
fi

scan_for_leaks() {
	if [ -e "$leaks" ]; then
		# What is younger than five seconds is not reported, nor what has changed since the scan before.
		sleep 6
		echo scan >"$leaks"
		echo scan >"$leaks"
		found=$(awk -f "$root$repo/tests/vm/leaks.awk" "$leaks")
		[ -z "$found" ] || fail "memory has leaked:
$found"
	fi
}

scan_for_leaks
if [ -n "$module" ] && [ -d "/sys/module/$name" ]; then
	rmmod "$name" || fail "$name cannot be unloaded"
	scan_for_leaks
fi

echo "$token $status" >"$share/verdict"
exit "$status"
