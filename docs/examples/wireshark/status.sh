#!/bin/sh
# SPDX-License-Identifier: MIT
tshark -2 -R kbus -r door.pcapng -Y 'kbus.kind == "status"' -O kbus
