# SPDX-License-Identifier: MIT
"""Asks for conversions, and shows all that can become of a request."""

from kbus import Ksock, ReplierError, StatusError

ASKED = [("$.Convert.Fahrenheit", "21.5"), ("$.Convert.Fahrenheit", "warm"), ("$.Convert.Kelvin", "21.5")]

with Ksock(call_timeout=5) as ksock:
    for name, data in ASKED:
        try:
            answer = ksock.call(name, data)
        except ReplierError as error:
            print(f"{name}: it failed, {error}")
        except StatusError as error:
            print(f"{name}: {error.status.name}")
        except TimeoutError:
            print(f"{name}: no answer in 5 seconds")
        except OSError as error:
            print(f"{name}: {error.strerror}")
        else:
            print(f"{name}: {answer.data!r}")
