# SPDX-License-Identifier: MIT
"""``kbus-sbusd --stats``: ask a daemon for its statistics."""

from __future__ import annotations

import json
from typing import Optional

from ..cli import output
from ..cli.output import StdoutFailed, tell
from . import address
from .address import Address
from .bridge import STATS
from .client import Client
from .prometheus import exposition

#: Seconds that the daemon has to answer.
_PATIENCE = 10.0
#: how statistics can be printed, the default first
FORMS = ("json", "prometheus")


def ask(place: str) -> bytes:
    """Return the statistics of the daemon there, lines of JSON. Raises OSError."""
    told = b""
    with Client(place) as client:
        client.control(STATS)
        while piece := client.expect_control(STATS, _PATIENCE).payload:
            told += piece
    return told


def tell_stats(at: Optional[Address], form: str = FORMS[0]) -> int:
    """Print what the daemon tells in one of ``FORMS``, and return the exit status."""
    place = str(at or address.DEFAULT)
    try:
        told = ask(place)
        if form == "prometheus":
            # A path need not be text, and metrics must be.
            shown = place.encode("utf-8", "backslashreplace").decode()
            told = exposition([json.loads(line) for line in told.splitlines()], shown).encode()
        output.put(told)
        output.flush()
    except StdoutFailed as failure:
        return output.stdout_failed("kbus-sbusd", failure)
    except TimeoutError:
        tell(
            "kbus-sbusd",
            f"{place} has not answered within {_PATIENCE:g} s. It tells its own user and root alone, and with"
            " --protocol dot nobody: then its log has it after SIGUSR1",
        )
        return 1
    except ConnectionRefusedError:
        tell("kbus-sbusd", f"nobody listens at {place}")
        return 1
    except ConnectionError:
        tell("kbus-sbusd", f"{place} has closed the connection; its log says why")
        return 1
    except (OSError, ValueError) as error:
        tell("kbus-sbusd", f"{place}: {getattr(error, 'strerror', None) or error}")
        return 1
    return 0
