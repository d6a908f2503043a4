# SPDX-License-Identifier: MIT
"""The benchmark: KBUS beside what else programs send messages with."""
