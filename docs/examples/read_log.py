# SPDX-License-Identifier: MIT
"""Reads back what kbus listen has written."""

import sys

from kbus.cli import logs

with open(sys.argv[1], encoding="utf-8") as log:
    for logged in logs.read(log, sys.argv[1]):
        print(logged.time_ns, logged.message.name, logged.message.data)
