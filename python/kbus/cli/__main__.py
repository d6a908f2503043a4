# SPDX-License-Identifier: MIT
"""``python3 -m kbus.cli`` is ``kbus``."""

import sys

from kbus.cli import main

sys.exit(main())
