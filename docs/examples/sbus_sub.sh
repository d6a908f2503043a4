#!/bin/sh
# SPDX-License-Identifier: MIT
kbus-sbus sub -a /tmp/sbus -n 4 'Sensors/'
