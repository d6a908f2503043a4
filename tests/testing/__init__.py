# SPDX-License-Identifier: MIT
"""The stand-in of kbus.testing as such; that it is like the module is shown by tests/kernel on both."""
