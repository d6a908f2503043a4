# SPDX-License-Identifier: MIT
"""sbus on KBUS: a bridge for programs that know only the sbus protocol, and a client for Python.

::

    from kbus.sbus import Client

    with Client() as client:
        client.subscribe("Sensors/")
        client.publish("Sensors/Kitchen", b"21.5")
        print(client.receive(timeout=1))

``kbus-sbusd`` is the bridge, ``kbus-sbus`` a client for shells; :mod:`kbus.sbus.aio` has one for asyncio.
"""

from .client import Client, Received

__all__ = ["Client", "Received"]
