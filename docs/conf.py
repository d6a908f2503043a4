# SPDX-License-Identifier: MIT
"""How Sphinx builds the documentation. ``make docs`` does it, with -W and -n."""

import sys
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path[:0] = [str(ROOT), str(ROOT / "python"), str(DOCS)]

import manual  # noqa: E402

from kbus import __version__  # noqa: E402

project = "KBUS"
author = "The KBUS founders"
copyright = author
release = version = __version__

extensions = ["sphinx.ext.autodoc", "generated", "manual", "pipeline_docs"]
exclude_patterns = ["examples"]
highlight_language = "c"
html_theme = "alabaster"
html_theme_options = {"page_width": "1100px", "description": "A message bus in the Linux kernel"}
html_copy_source = False

autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True

man_pages = [(page.document, page.name, page.says, author, page.section) for page in manual.PAGES]

# Types in annotations and docstrings that have no page here: the standard library's, a type variable, and a
# class of the command, which is no API.
nitpick_ignore_regex = [
    ("py:class", r"(collections\.abc|io|pathlib)\..*|os\.PathLike|Clock"),
    ("py:class", r"kbus\.messages\._M|kbus\._handlers\..*|kbus\.testing\.bus\._B"),
]
