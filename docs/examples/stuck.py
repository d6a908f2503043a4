# SPDX-License-Identifier: MIT
"""A program that hangs: it has read a request, and reads nothing any more."""

import signal

from kbus import Ksock

ksock = Ksock()
ksock.set_max_messages(1)
ksock.bind("$.Lamp.Set", replier=True)
ksock.bind("$.Sensors.*")
ksock.wait_for_msg()
signal.pause()
