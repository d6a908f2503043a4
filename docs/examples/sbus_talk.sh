#!/bin/sh
# SPDX-License-Identifier: MIT
kbus-sbus pub -a /tmp/sbus Sensors/Kitchen 21.5
kbus send '$.Sensors.Hall' 19.0
kbus-sbus pub -a /tmp/sbus Sensors/living-room 22
kbus send '$.Sensors.doorZ2D1' open
