# SPDX-License-Identifier: MIT
"""Asks the sensors of a house, in the style of programs for the original package."""

from typing import Optional

from kbus import Announcement, Ksock, Message, Request, stateful_request


def ask(ksock: Ksock, request: Request) -> Optional[Message]:
    """Send a request, wait for its reply, and show that."""
    ksock.write_msg(request)
    request_id = ksock.send()
    reply = ksock.wait_for_msg(timeout=10)
    if reply is not None and reply.in_reply_to == request_id:
        print(request.name, "is", (reply.data or b"").decode(), type(reply.cast()).__name__)
    return reply


def main() -> None:
    """Ask about three rooms, and tell the service to quit."""
    with Ksock(0, "rw") as ksock:
        print("the replier for the kitchen is", ksock.find_replier("$.Sensors.Kitchen"))
        print("the replier for all rooms is KSock", ksock.find_replier("$.Sensors.%"))
        first = ask(ksock, Request("$.Sensors.Kitchen"))
        ask(ksock, Request("$.Sensors.Cellar"))
        if first is not None:
            # Only the same service will do.
            ask(ksock, stateful_request(first, "$.Sensors.Bedroom"))
        ksock.send_msg(Announcement("$.Sensors.Quit"))
        print("the last message sent is", ksock.last_msg_id())


if __name__ == "__main__":
    main()
