#!/bin/bash
# SPDX-License-Identifier: MIT
# foreign.sh ARCHITECTURE VERSION HEADERS...: a kernel of Debian's for another architecture, with what builds modules
# for it and a small root file system. Takes the first of the packages HEADERS that is for VERSION, '' for any. Prints
# the directory: `root` has the kernel too, `release` names it, `build` is for make -C. Nothing of it runs here, so
# packages are only unpacked, by whoever asks. The directory is used again until the script changes.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
arch=$1 version=$2
shift 2
cache=${XDG_CACHE_HOME:-$HOME/.cache}/kbus
key=$({ cat "$0" "$here"/guest-bin/* && echo "$version" "$@"; } | sha256sum | cut -c1-12)
into=$cache/$1-$key

programs=(base-files base-passwd bash busybox-static coreutils dash e2fsprogs findutils grep hostname iproute2 kmod libc-bin
	mount ncurses-base python3 sed tmux util-linux)

prepare_apt() {
	mkdir -p apt/lists/partial apt/archives/partial
	touch apt/status
	cat >apt/apt.conf <<-END
		APT::Architecture "$arch";
		APT::Architectures { "$arch"; "amd64"; };
		APT::Install-Recommends "false";
		APT::Sandbox::User "";
		Dir::State "$into/apt";
		Dir::State::status "$into/apt/status";
		Dir::Cache "$into/apt";
	END
	export APT_CONFIG=$into/apt/apt.conf
	apt-get -qq update || echo "Not all package lists could be had; going on with the others"
}

find_release() {
	local headers
	for headers in "$@"; do
		release=$(apt-cache depends "$headers" 2>/dev/null | sed -n 's/.*Depends: linux-headers-//p') || continue
		case $release in
		'') ;;
		"${version:-$release}" | "$version".*) return 0 ;;
		esac
	done
	echo "no kernel $version for $arch among Debian's packages here: looked for $*"
	return 1
}

# The programs that build modules run on the host: they come from the package for amd64, of the same source. That of
# one architecture may be days older; then the newest of the same kernel will do.
fetch_headers() {
	local headers common kbuild of
	headers=linux-headers-$release
	common=$(apt-cache depends "$headers" | sed -n 's/.*Depends: \(linux-headers-.*-common.*\)/\1/p')
	kbuild=$(apt-cache depends "$headers" | sed -n 's/.*Depends: \(linux-kbuild-[^:]*\)$/\1/p')
	of=$(apt-cache show --no-all-versions "$headers" | sed -n 's/^Version: //p')
	mkdir debs
	(cd debs && apt-get -qq download "$headers=$of" "$common=$of" &&
		{ apt-get -qq download "$kbuild:amd64=$of" || apt-get -qq download "$kbuild:amd64"; })
	unpack debs headers
	ln -s "headers/usr/src/$headers" build
	sed -i "s,/usr/src,$into/headers/usr/src," build/Makefile
}

make_root() {
	apt-get -qq install -y --download-only "${programs[@]}"
	(cd apt/archives && apt-get -qq download "linux-image-$release")
	unpack apt/archives root
	# What scripts of the packages would have done.
	cp root/usr/share/base-passwd/passwd.master root/etc/passwd
	cp root/usr/share/base-passwd/group.master root/etc/group
	depmod -b root "$release"
	# virtme's init wants these; see guest-bin.
	mkdir -p root/usr/local/sbin
	cp "$here"/guest-bin/* root/usr/local/sbin
	ln -s /bin/true root/usr/local/sbin/udevd
	ln -s /bin/busybox root/usr/local/sbin/poweroff
}

unpack() {
	local package
	for package in "$1"/*.deb; do
		dpkg-deb -x "$package" "$2"
	done
	rm -r "$1"
}

make_it() {
	prepare_apt
	find_release "$@"
	fetch_headers
	make_root
	echo "$release" >release
}

if [[ ! -e $into/complete ]]; then
	echo "Fetching a system for $arch into $into: a minute, once" >&2
	rm -rf "$cache/$1"-*
	mkdir -p "$into"
	cd "$into"
	# Not `if ! make_it`, which would let it go on after what fails.
	(make_it "$@") >log 2>&1 </dev/null &
	if ! wait $!; then
		tail -n 20 log >&2
		exit 1
	fi
	touch complete
fi
echo "$into"
