# SPDX-License-Identifier: MIT
"""What `make demo` shows."""
