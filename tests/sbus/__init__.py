# SPDX-License-Identifier: MIT
"""The sbus bridge: pure parts on the host, all else with real sockets and the module in the VM."""
