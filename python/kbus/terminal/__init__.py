# SPDX-License-Identifier: MIT
"""What the commands share: options, output, failures, signals, and what they report to other programs."""
