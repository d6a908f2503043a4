# SPDX-License-Identifier: MIT
"""A program that waits for an answer that does not come."""

from kbus import Ksock

with Ksock() as ksock:
    ksock.call("$.Lamp.Set", "on")
