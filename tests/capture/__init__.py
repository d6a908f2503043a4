# SPDX-License-Identifier: MIT
"""Tests of recording, and of what is recorded."""
