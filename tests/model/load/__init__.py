# SPDX-License-Identifier: MIT
"""The axioms under load: processes that send, read, bind and die, and what must be true of their notes."""
