#!/bin/bash
# SPDX-License-Identifier: MIT
# packages.sh PACKAGE...: install these Debian packages unless all of them are there. If one is missing the others
# come up to date with it: a kernel and its headers must match.
set -euo pipefail

missing=()
for package in "$@"; do
	state=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
	[[ $state == 'install ok installed' ]] || missing+=("$package")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

if [[ $EUID -eq 0 ]]; then
	root=()
elif sudo -n true 2>/dev/null; then
	root=(sudo -n)
else
	echo "Debian packages are missing. As root: apt-get install --no-install-recommends ${missing[*]}" >&2
	exit 1
fi

echo "Installing Debian packages: ${missing[*]}"
apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y)
# apt-get does not wait for another one.
exec 9>"${TMPDIR:-/tmp}/kbus-packages.lock"
flock 9
log=$(mktemp)
if ! { "${apt[@]}" update && "${apt[@]}" install --no-install-recommends "$@"; } </dev/null >"$log" 2>&1; then
	cat "$log" >&2
	exit 1
fi
rm "$log"
