# SPDX-License-Identifier: MIT
"""A service that converts temperatures. End it with Ctrl-C."""

from kbus import Data, Ksock, Message


def fahrenheit(request: Message) -> Data:
    """Give the degrees Celsius in the request as degrees Fahrenheit."""
    celsius = float(request.data or b"0")
    return f"{celsius * 9 / 5 + 32:.1f}"


with Ksock() as ksock:
    ksock.serve("$.Convert.Fahrenheit", fahrenheit)
