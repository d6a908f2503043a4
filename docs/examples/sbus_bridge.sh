#!/bin/sh
# SPDX-License-Identifier: MIT
kbus-sbusd -f -c -p /dev/null -a /tmp/sbus
