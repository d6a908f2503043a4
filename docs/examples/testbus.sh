#!/bin/sh
# SPDX-License-Identifier: MIT
# A bus for one command
kbus-testbus -- ./call_door.sh
# One for all that is started from this shell
eval "$(kbus-testbus & echo bus=$!)"
./call_door.sh
kill $bus
