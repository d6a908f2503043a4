# SPDX-License-Identifier: MIT
"""From the bytes of a capture to Arrow: packets, sections, messages. Without Spark."""
