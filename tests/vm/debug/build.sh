#!/bin/bash
# SPDX-License-Identifier: MIT
# build.sh VARIANT: the kernel of VARIANT.config, from Debian's kernel source; prints the directory that it was built in. It
# is outside the tree and is used again while what it was made from is the same.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
variant=$1
fragments=("$here/common.config" "$here/$variant.config")
source=linux-source-6.1
if [[ $variant == um ]]; then
	fragments=("$here/um.config")
	# User Mode Linux 6.1 cannot be preempted.
	source=linux-source-6.12
	export ARCH=um
fi
"$here/../../setup/packages.sh" "$source" bc bison flex gcc libc6-dev libelf-dev libssl-dev make xz-utils >&2

cache=${XDG_CACHE_HOME:-$HOME/.cache}/kbus
version=$(dpkg-query -W -f '${Version}' "$source")
key=$({ cat "${fragments[@]}" "$0" && gcc --version && echo "$version"; } |
	sha256sum | cut -c1-12)
build=$cache/kernel-$variant-$key

configure() {
	make -s tinyconfig &&
		scripts/kconfig/merge_config.sh -m .config "${fragments[@]}" &&
		make -s olddefconfig || return
	# What a fragment asks for and Kconfig leaves out is a mistake in the fragment.
	while IFS='=' read -r name value; do
		if ! grep -qx "$name=$value" .config && { [[ $value != n ]] || grep -q "^$name=" .config; }; then
			echo "$variant.config: $name=$value cannot be had"
			return 1
		fi
	done < <(grep -h ^CONFIG_ "${fragments[@]}")
}

if [[ ! -e $build/complete ]]; then
	echo "Building the $variant kernel in $build: several minutes, once" >&2
	rm -rf "$cache/kernel-$variant"-*
	mkdir -p "$build"
	tar -C "$build" --strip-components=1 -xf "/usr/src/$source.tar.xz"
	cd "$build"
	# User Mode Linux gives a process's registers back whole or not at all, and those of newer processors (AMX has 8 KiB of
	# them) are more than it has room for. Linux takes no more than there are.
	sed -i 's/DEFINE_LONGS(HOST_FP_SIZE, 2696);/DEFINE_LONGS(HOST_FP_SIZE, 12288);/' arch/x86/um/user-offsets.c
	# KCSAN is for the module, which is built after this: the rest of the kernel has races of its own, and would get most of
	# the watchpoints.
	if ! { configure && make -s -j"$(nproc)" KCSAN_SANITIZE=n all; } >build.log 2>&1 </dev/null; then
		tail -n 30 build.log >&2
		exit 1
	fi
	touch complete
fi
echo "$build"
