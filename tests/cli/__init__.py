# SPDX-License-Identifier: MIT
"""Tests of the `kbus` command that need no device; those that do are in tests/kernel."""
