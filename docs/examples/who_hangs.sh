#!/bin/sh
# SPDX-License-Identifier: MIT
for reading in 21.5 21.6; do
	kbus send '$.Sensors.Kitchen' "$reading" >/dev/null
done
cat /proc/kbus/stats /proc/kbus/bindings
