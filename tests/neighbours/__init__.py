# SPDX-License-Identifier: MIT
"""Hostile neighbours: unprivileged users who do what they can, and bystanders who must not feel it."""
