# SPDX-License-Identifier: MIT
"""What the commands of the Makefile need before and after the tests."""
