# SPDX-License-Identifier: MIT
"""A door: a service with two names, which listens to the weather as well. End it with Ctrl-C."""

from kbus import Ksock, Message, ReplierError, Service


class Door:
    """A door that does not open in a storm."""

    def __init__(self, ksock: Ksock) -> None:
        self.is_open = False
        self.is_stormy = False
        self.service = Service(ksock, "$.Door")
        self.service.replier("Open", time_limit=2)(self.open)
        self.service.replier("Close", time_limit=2)(self.close)
        self.service.listener("$.Weather.%")(self.weather)

    def open(self, request: Message) -> str:
        if self.is_stormy:
            raise ReplierError("Door.Jammed", "the wind is too strong")
        self.is_open = True
        return "open"

    def close(self, request: Message) -> str:
        self.is_open = False
        return "closed"

    def weather(self, message: Message) -> None:
        self.is_stormy = message.data == b"storm"


if __name__ == "__main__":
    with Ksock() as ksock:
        Door(ksock).service.run()
