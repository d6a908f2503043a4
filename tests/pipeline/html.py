# SPDX-License-Identifier: MIT
"""Reads a page as strictly as HTML that is written by a program deserves."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """Sections, sentences and addresses of a page, and whether every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.sections: list[str] = []
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "br"):
            self.open.append(tag)
        for name, value in attrs:
            if tag == "section" and name == "id":
                self.sections.append(str(value))
            if name == "id":
                self.ids.append(str(value))
            if name in ("src", "href", "action") or (name == "xlink:href"):
                self.addresses.append(str(value))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
