#!/bin/bash
# SPDX-License-Identifier: MIT
# venv.sh PYTHON [REQUIREMENTS]: a virtual environment with what tests/requirements.txt, or that file, asks for, outside
# the tree; prints where it is.
set -euo pipefail

python=$1
requirements=${2:-$(dirname "$0")/../requirements.txt}
key=$({ cat "$requirements" && "$python" -c 'import sys; print(sys.version, sys.prefix)'; } | sha256sum | cut -c1-12)
venv=${XDG_CACHE_HOME:-$HOME/.cache}/kbus/venv-$key

mkdir -p "${venv%/*}"
exec 9>"$venv.lock"
flock 9
if [[ ! -e $venv/complete ]]; then
	echo "Making a Python environment in $venv" >&2
	"$python" -m venv --clear "$venv" >&2
	"$venv/bin/pip" install -qq --disable-pip-version-check --requirement "$requirements" >&2
	touch "$venv/complete"
fi
echo "$venv"
