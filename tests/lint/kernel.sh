#!/bin/bash
# SPDX-License-Identifier: MIT
# kernel.sh KERNEL...: hold kernel/ against the kernel's own checks, with the headers of each of these kernels.
set -euo pipefail

mapfile -t sources < <(find kernel -name '*.[ch]' ! -name '*.mod.c' | sort)
mapfile -t rules < <(find kernel -name Kconfig -o -name Makefile)
tree=$PWD/build/lint
for kernel in "$@"; do
	build=$(python3 -m tests.vm.kernels --headers-only "$kernel")
	echo "Checking kernel/ with $build"
	rm -rf "$tree"
	mkdir -p "$tree"
	cp --parents -t "$tree" Kbuild "${sources[@]}" "${rules[@]}"
	(
		eval "$(python3 -m tests.vm.kernels --environment "$kernel")"
		make -s -C "$build" M="$tree" W=1 C=2 CHECK='sparse -Wsparse-error' KCFLAGS=-Werror \
			CONFIG_DEBUG_INFO_BTF_MODULES= modules
	)

	# Older ones do not know -Wall.
	all=$("$build/scripts/kernel-doc" -h 2>&1 | grep -o -m 1 -e '-Wall' || true)
	"$build/scripts/kernel-doc" -none -Werror ${all:+"$all"} "${sources[@]}"
done

tests/lint/checkpatch.pl --no-tree --strict --quiet --show-types --file "${sources[@]}"
