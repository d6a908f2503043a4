# SPDX-License-Identifier: MIT
"""A replier that reads a request and dies."""

import os
import signal

from kbus import Ksock

ksock = Ksock()
ksock.bind("$.Door.Open", replier=True)
ksock.wait_for_msg()
os.kill(os.getpid(), signal.SIGKILL)
