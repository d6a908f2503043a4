# SPDX-License-Identifier: MIT
"""Hypothesis for machines of any speed: no example is too slow."""

from hypothesis import settings

settings.register_profile("any speed", deadline=None)
settings.load_profile("any speed")
