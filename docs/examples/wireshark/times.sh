#!/bin/sh
# SPDX-License-Identifier: MIT
tshark -2 -R kbus -r door.pcapng -Y kbus.response_time \
	-T fields -e frame.number -e kbus.answer_to -e kbus.response_time -e kbus.kind -e kbus.name
