# SPDX-License-Identifier: MIT
"""``python -m kbus.pipeline``, and what is given to spark-submit: the same as ``kbus-pipeline``."""

import sys

# Absolute: for spark-submit this file is in no package.
from kbus.pipeline.cli import main

if __name__ == "__main__":
    sys.exit(main())
