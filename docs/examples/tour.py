# SPDX-License-Identifier: MIT
"""One message for everybody who listens, and one request that is answered."""

from kbus import Announcement, Ksock, Request, reply_to

with Ksock() as sensor, Ksock() as display:
    display.bind("$.Sensors.*")
    sensor.bind("$.Sensors.Kitchen.Unit", replier=True)

    sensor.send_msg(Announcement("$.Sensors.Kitchen", "21.5"))
    for message in display:
        print("the display shows", message.name, message.data)

    display.unbind("$.Sensors.*")
    display.send_msg(Request("$.Sensors.Kitchen.Unit"))
    for request in sensor:
        sensor.send_msg(reply_to(request, "degrees Celsius"))
    for reply in display:
        print("the display gets", reply.data)
