# SPDX-License-Identifier: MIT
"""Shows what was answered late, or by KBUS itself, in a capture."""

import sys

from kbus.capture import Reader

asked = {}
with Reader(sys.argv[1], strict=False) as capture:
    for time_ns, message, facts in capture:
        if message.is_request():
            asked[message.id] = facts.mono_ns
        elif message.in_reply_to in asked:
            took = (facts.mono_ns - asked.pop(message.in_reply_to)) / 1e6
            if took > 100 or message.is_synthetic():
                print(time_ns, message.name, f"from KSock {message.from_}, after {took:.1f} ms")
print(len(asked), "requests have no answer")
