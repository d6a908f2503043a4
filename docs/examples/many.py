# SPDX-License-Identifier: MIT
"""Readings that are sent and received many at a time, with one system call each."""

from kbus import Announcement, Ksock, SendManyError

with Ksock() as sensor, Ksock() as display:
    display.bind("$.Sensors.%")

    ids = sensor.send_many(Announcement("$.Sensors.Kitchen", str(degrees)) for degrees in (20, 21, 22))
    readings = display.receive_many(timeout=1)
    print([reading.data for reading in readings], ids == [reading.id for reading in readings])

    try:
        sensor.send_many(Announcement(name) for name in ("$.Sensors.Hall", "$.KBUS.Mine", "$.Sensors.Attic"))
    except SendManyError as error:
        print("sent:", len(error.sent), "then:", error.strerror)
    print([reading.name for reading in display.receive_many(timeout=1)])
