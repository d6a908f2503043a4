# SPDX-License-Identifier: MIT
"""Captures become rows of ``messages``, ``files`` and ``stretches``, each message once."""
