#!/bin/sh
# SPDX-License-Identifier: MIT
kbus call '$.Convert.Fahrenheit' 21.5
echo " degrees Fahrenheit"
