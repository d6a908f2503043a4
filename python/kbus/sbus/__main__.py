# SPDX-License-Identifier: MIT
"""``python3 -m kbus.sbus`` is ``kbus-sbusd``."""

import sys

from .daemon import main

sys.exit(main())
