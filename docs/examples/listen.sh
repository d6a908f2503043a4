#!/bin/sh
# SPDX-License-Identifier: MIT
kbus listen -n 3 '$.Sensors.*'
