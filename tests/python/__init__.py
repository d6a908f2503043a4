# SPDX-License-Identifier: MIT
"""Tests of the Python package that need no device."""
