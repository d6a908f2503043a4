# SPDX-License-Identifier: MIT
"""Boots a kernel in a virtual machine, runs a command in it, and tells truthfully how it went: README.rst."""
