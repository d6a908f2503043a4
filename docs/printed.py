# SPDX-License-Identifier: MIT
"""What a command prints, as a node of the docs."""

import io
import os
from collections.abc import Callable
from contextlib import redirect_stdout
from unittest import mock

from docutils import nodes


def help_of(main: Callable[[list[str]], int], words: list[str]) -> list[nodes.Node]:
    """Give a literal block of what ``main`` prints for these words and ``--help``."""
    # It writes bytes below the text.
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with mock.patch.dict(os.environ, COLUMNS="78"), redirect_stdout(printed):
        main([*words, "--help"])
    printed.seek(0)
    text = printed.read()
    return [nodes.literal_block(text, text, language="text")]
