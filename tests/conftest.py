# SPDX-License-Identifier: MIT
"""Hypothesis for machines of any speed: no example is too slow, nor is making one."""

from hypothesis import HealthCheck, settings

settings.register_profile("any speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any speed")
