# SPDX-License-Identifier: MIT
"""What the kernel module allows this process, by its parameters."""

from __future__ import annotations

import os
import re

from .bindings import Allowed

_PARAMETERS = "/sys/module/kbus/parameters"
_CAP_SYS_RESOURCE = 1 << 24
_INITIAL_USERS = ["0", "0", "4294967295"]


def allowed_bindings() -> Allowed:
    """Return how many names one KSock of this process may be bound to, if no other of its user is."""
    most = _parameter("max_ksock_bindings", 4096)
    return Allowed(most, most if _is_exempt() else _parameter("max_name_bindings", 16))


def _parameter(name: str, default: int) -> int:
    try:
        with open(os.path.join(_PARAMETERS, name)) as parameter:
            return int(parameter.read())
    except OSError:
        # A service may not be let see it. KBUS refuses one too many all the same.
        return default


def _is_exempt() -> bool:
    """Whether this process may have any number of wildcards: CAP_SYS_RESOURCE, outside user namespaces."""
    with open("/proc/self/status") as status, open("/proc/self/uid_map") as users:
        capabilities = re.search(r"^CapEff:\s*([0-9a-f]+)$", status.read(), re.MULTILINE)
        return (
            capabilities is not None
            and bool(int(capabilities[1], 16) & _CAP_SYS_RESOURCE)
            and users.read().split() == _INITIAL_USERS
        )
