#!/bin/sh
# SPDX-License-Identifier: MIT
kbus call '$.Convert.Fahrenheit' warm
echo "exit status $?"
