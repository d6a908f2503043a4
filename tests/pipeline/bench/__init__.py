# SPDX-License-Identifier: MIT
"""How fast the pipeline is: `make bench-pipeline`."""
