# SPDX-License-Identifier: MIT
"""The sbus bridge: pure parts on the host, all else over real sockets and the module in the virtual machine."""
