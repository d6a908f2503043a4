# SPDX-License-Identifier: MIT
"""Asks for a conversion, and shows all that can become of a request."""

from kbus import Ksock, StatusError

with Ksock() as ksock:
    for name in ("$.Convert.Fahrenheit", "$.Convert.Kelvin"):
        try:
            answer = ksock.call(name, "21.5", timeout=5)
        except TimeoutError:
            print(f"{name}: no answer in 5 seconds")
        except StatusError as error:
            print(f"{name}: {error.status.name}")
        except OSError as error:
            print(f"{name}: {error.strerror}")
        else:
            print(f"{name}: {answer.data!r}")
