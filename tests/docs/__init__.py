# SPDX-License-Identifier: MIT
"""What the documentation shows is what happens."""
