#!/bin/sh
# SPDX-License-Identifier: MIT
kbus send '$.Sensors.Kitchen' 21.5
kbus send '$.Sensors.Bedroom.Window' open
kbus send '$.Sensors.Kitchen' --hex 00ff10
