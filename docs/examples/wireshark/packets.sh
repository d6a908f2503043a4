#!/bin/sh
# SPDX-License-Identifier: MIT
tshark -r door.pcapng
