# SPDX-License-Identifier: MIT
"""Captures as DataFrames: the data source ``kbus``, and a session that has it."""
