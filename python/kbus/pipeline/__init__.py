# SPDX-License-Identifier: MIT
"""Recorded bus traffic on Spark."""
