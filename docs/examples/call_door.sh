#!/bin/sh
# SPDX-License-Identifier: MIT
python3 door.py &
until kbus trace '$.Door.Open' | grep -q answers; do sleep 0.1; done
kbus call '$.Door.Open'
echo
kill $!
