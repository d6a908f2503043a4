# SPDX-License-Identifier: MIT
"""``python -m kbus.pipeline``, and what is given to spark-submit: the same as ``kbus-pipeline``."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
