# SPDX-License-Identifier: MIT
"""Tables that are made of others: conversations, events, aggregates."""
