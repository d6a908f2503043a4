# SPDX-License-Identifier: MIT
"""Sensors of a house, in the style of programs for the original package.

Announces each reading once, and then answers requests for them until it hears $.Sensors.Quit.
"""

import select

from kbus import Ksock, Message, reply_to

READINGS = {"$.Sensors.Kitchen": "21.5", "$.Sensors.Bedroom": "18.0"}


def main() -> None:
    """Be the service."""
    service = Ksock(0, "rw")
    try:
        for name, reading in READINGS.items():
            service.send_msg(Message(name, reading))
        service.bind("$.Sensors.%", True)
        service.bind("$.Sensors.Quit")
        serve(service)
        print(service.num_unreplied_to(), "requests are unanswered")
    finally:
        service.close()


def serve(service: Ksock) -> None:
    """Answer until it is time to quit."""
    while True:
        select.select([service], [], [])
        message = service.read_msg(service.next_msg())
        if message is None:
            continue
        if message.wants_us_to_reply():
            id, _, _, sender, _, _, _, name, _ = message.extract()
            print(f"request {id} for {name} from KSock {sender}")
            service.send_msg(reply_to(message, READINGS.get(name, "no such sensor")))
        elif message.name == "$.Sensors.Quit":
            print("told to quit")
            return


if __name__ == "__main__":
    main()
