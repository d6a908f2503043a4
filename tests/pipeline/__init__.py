# SPDX-License-Identifier: MIT
"""The data pipeline, on real Spark."""
