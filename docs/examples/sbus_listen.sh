#!/bin/sh
# SPDX-License-Identifier: MIT
kbus listen -n 4 '$.Sensors.*'
