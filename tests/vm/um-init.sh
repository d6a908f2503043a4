#!/bin/sh
# SPDX-License-Identifier: MIT
# The first process of User Mode Linux, whose root is the host's files, read-only. The kernel's command line has set
# KBUS_SHARE, the directory of the host that is shared, and TERM. It must not be busybox: to run what busybox has, a shell of
# busybox executes /proc/self/exe, which is User Mode Linux itself.
# shellcheck disable=SC2154,SC3045
exec </dev/tty0 >/dev/tty0 2>/dev/tty1
stty -F /dev/tty0 -opost
stty -F /dev/tty1 -opost
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/pts /dev/shm
mount -t devpts -o gid=5,mode=620 devpts /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
ln -s /proc/self/fd /dev/fd
ln -s fd/0 /dev/stdin
ln -s fd/1 /dev/stdout
ln -s fd/2 /dev/stderr
ln -sf pts/ptmx /dev/ptmx
mount -t debugfs debugfs /sys/kernel/debug
mount -t tracefs tracefs /sys/kernel/tracing
mount -t tmpfs -o mode=755 run /run
mkdir /run/kbus /run/lock
mount -t hostfs -o "$KBUS_SHARE" none /run/kbus
ip link set dev lo up
ulimit -Hn 1048576
hostname kbus-vm
sh /run/kbus/guest.sh
sync
exec busybox poweroff -f
