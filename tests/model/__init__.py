# SPDX-License-Identifier: MIT
"""A reference model of the bus, and the property tests that hold the module against it."""
