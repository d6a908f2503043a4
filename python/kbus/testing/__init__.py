# SPDX-License-Identifier: MIT
"""A bus for tests, without the module.

::

    from kbus import Ksock, Request
    from kbus.testing import Bus

    with Bus(), Ksock() as ksock:
        ...

Inside the ``with``, ``Ksock``, ``kbus.aio``, ``Service``, ``kbus.inspect`` and the command's functions work
as they do on the module's bus: they wait, time out, poll, have several devices and threads, and get statuses.
``Ksock.is_real`` is False there. The bus is made of the reference model that the module is tested against.
"""

from __future__ import annotations

from .bus import Bus

__all__ = ["Bus"]
