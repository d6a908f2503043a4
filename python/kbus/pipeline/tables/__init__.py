# SPDX-License-Identifier: MIT
"""The tables: where they are, what belongs to them, and who may change them."""
