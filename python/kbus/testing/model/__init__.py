# SPDX-License-Identifier: MIT
"""A reference model of the bus: what the semantics and the decisions say, single-threaded and plain.

The tests hold it against the module, call by call. ``kbus.testing`` makes a bus of it.
"""
