#!/bin/sh
# SPDX-License-Identifier: MIT
kbus call '$.Door.Open'
echo "exit status $?"
kbus call '$.Door.Open'
echo "exit status $?"
