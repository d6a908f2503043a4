# SPDX-License-Identifier: MIT
"""The bus at work, as a short story in scenes. Each scene looks whether what it tells has really happened.

It needs the module, and a /dev/kbus0 that nobody else uses. The exit status is 0 if all scenes went as they
should.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from tempfile import TemporaryDirectory

from kbus import Announcement, Ksock, Message, ReplierError, Request, inspect
from kbus.capture import Reader
from kbus.sbus import Client
from tests.demo.recording import Recording, kbus
from tests.demo.roles import (
    PATIENCE,
    Actor,
    DidNotHappen,
    archivist,
    bridge,
    converter,
    listener,
    oracle,
    publisher,
    sleeper,
)

ROUNDS = 3


class Stage:
    """Who is there for more than one scene."""

    def __init__(self, stack: ExitStack) -> None:
        self.stack = stack
        self.recording = stack.enter_context(Recording())
        self.publisher = stack.enter_context(Actor(publisher))
        self.listener = stack.enter_context(Actor(listener))
        self.archivist = stack.enter_context(Actor(archivist))
        self.listener.hears("that it listens")
        self.archivist.hears("that it is bound")
        self.heard: dict[str, list[str]] = {}


def tell(line: str) -> None:
    """A line of the story."""
    print(f"   {line}", flush=True)


def check(holds: bool, otherwise: str) -> None:
    """Go on only if what should have happened has happened."""
    if not holds:
        raise DidNotHappen(otherwise)


def the_machine_speaks(stage: Stage) -> str:
    """Readings are published, and a listener hears them."""
    tell(f"process {stage.publisher.pid} publishes, process {stage.listener.pid} listens and hears")
    stage.publisher.tell(ROUNDS)
    heard = []
    for _ in range(ROUNDS):
        for sent in stage.publisher.hears("what it sent"):
            message_id, name, text = stage.listener.hears("of the next reading")
            tell(f"  {message_id!s:8} {name:32} {text}")
            check((message_id, name, text) == sent, f"what was sent is {sent}")
            heard.append(message_id)
            stage.heard.setdefault(name, []).append(text)
    check(heard == sorted(heard), "the messages did not come in the order of their ids")
    return f"{len(heard)} readings were sent, and the same {len(heard)} heard, in order"


def somebody_answers(stage: Stage) -> str:
    """A replier has heard the readings too, and answers requests about them."""
    tell(f"process {stage.archivist.pid} replies, process {os.getpid()} asks")
    with Ksock() as ksock:
        for name, texts in {**stage.heard, "$.Machine.Weather": ["never heard of it"]}.items():
            asked = name.replace("$.Machine.", "$.Archive.")
            reply = ksock.call(asked, timeout=PATIENCE)
            answer = (reply.data or b"").decode()
            tell(f"  {asked + '?':32} {answer}")
            check(answer == " | ".join(texts), f"the answer about {name} is not what was published")
            check(reply.from_ == stage.archivist.ksock_id, "somebody else answered")
    return f"{len(stage.heard) + 1} requests, {len(stage.heard) + 1} right answers"


def who_is_bound(stage: Stage) -> str:
    """The kernel shows who is bound to what."""
    for line in inspect.BINDINGS.read_text().splitlines():
        tell(f"  {line}")
    found = {(each.ksock_id, each.pid, each.is_replier, each.name) for each in inspect.bindings(0)}
    expected = {
        (stage.recording.ksock_id, stage.recording.pid, False, "$.*"),
        (stage.listener.ksock_id, stage.listener.pid, False, "$.Machine.*"),
        (stage.archivist.ksock_id, stage.archivist.pid, False, "$.Machine.*"),
        (stage.archivist.ksock_id, stage.archivist.pid, True, "$.Archive.*"),
    }
    check(found == expected, f"these bindings were expected: {sorted(expected)}")
    return f"all {len(expected)} bindings are listed, with their processes"


def a_bad_request(stage: Stage) -> str:
    """A service answers a bad request with an error, and the next one as if nothing had been."""
    name = "$.Convert.Fahrenheit"
    with Actor(converter) as service, Ksock() as ksock:
        service.hears("that it is bound")
        tell(f"process {service.pid} is a service; `kbus trace {name}` tells who would get what")
        lines = kbus("trace", name).splitlines()
        for line in lines:
            tell(f"  {line}")
        check(any(str(service.pid) in line for line in lines), "the service is not among them")
        try:
            answer = ksock.call(name, "warm", timeout=PATIENCE)
        except ReplierError as error:
            tell(f"  {name} warm?   {error}")
            check(error.kind == "ValueError", "that is another error")
        else:
            raise DidNotHappen(f"warm is {answer.data!r}")
        answer = ksock.call(name, "21.5", timeout=PATIENCE)
        tell(f"  {name} 21.5?   {(answer.data or b'').decode()}")
        check(answer.data == b"70.7", "that is not right")
    return "the asker knows what was wrong, and the service goes on"


def a_replier_is_killed(stage: Stage) -> str:
    """A replier is killed in the middle of a request."""
    with Actor(oracle) as victim, Ksock() as ksock:
        victim.hears("that it is bound")
        request_id = ksock.send_msg(Request("$.Oracle.Ask", "What is the answer?"))
        check(victim.hears("that it has the request") == request_id, "the request did not arrive")
        tell(f"process {victim.pid} has read request {request_id} and thinks about it; now comes SIGKILL")
        victim.kill()
        status = ksock.wait_for_msg(PATIENCE)
        check(status is not None, "the asker is still waiting")
        assert status is not None
        tell(f"process {os.getpid()} gets {status.name} in reply to {status.in_reply_to}, from KBUS itself")
        check(
            status.is_synthetic() and status.in_reply_to == request_id,
            "that is not a status for this request",
        )
        check(status.name == "$.KBUS.Replier.Ignored", "that is another status")
        check(ksock.find_replier("$.Oracle.Ask") is None, "the dead replier is still bound")
        check(ksock.read_next_msg() is None, "there was more than one answer")
    return "one request, one status, and nobody waits for the dead"


def an_urgent_message(stage: Stage) -> str:
    """An urgent message overtakes a queue."""
    letters = [f"letter {number}" for number in range(1, 6)]
    with Actor(sleeper) as reader, Ksock() as ksock:
        reader.hears("that it sleeps")
        for letter in letters:
            ksock.send_msg(Announcement("$.Mail", letter))
        tell(f"{len(letters)} letters wait for process {reader.pid}, which sleeps; then comes a telegram")
        ksock.send_msg(Announcement("$.Mail", "telegram", flags=Message.URGENT))
        reader.tell("wake up")
        found = reader.hears("what it found")
        tell(f"it wakes up and reads: {', '.join(found)}")
        check(found == ["telegram", *letters], "it should be the telegram, and then the letters in order")
    return "the telegram came first, the letters kept their order"


def all_of_it_was_recorded(stage: Stage) -> str:
    """A recorder has seen all that, and made a file of it."""
    tell(f"process {stage.recording.pid} is `kbus record`; now it ends, and `kbus info` tells what it has")
    stage.recording.end()
    lines = kbus("info", str(stage.recording.path)).splitlines()
    for line in lines:
        tell(f"  {line}")
    check(": whole, " in lines[0], "the file is damaged")
    check(lines[2].endswith(" 0 lost"), "something was lost")
    with Reader(stage.recording.path) as reader:
        names = [record.message.name for record in reader if not record.message.is_synthetic()]
    readings = sum(name.startswith("$.Machine.") for name in names)
    heard = sum(len(texts) for texts in stage.heard.values())
    check(readings == heard, f"{readings} readings were recorded, and {heard} heard")
    # Each with its answer, but for the one of the oracle, which is killed.
    requests = 2 * (len(stage.heard) + 1 + 2) + 1
    check(len(names) == readings + requests + 6, f"{len(names)} messages is not what there was")
    stage.recording.keep()
    return f"{len(names)} messages of programs, none lost, and what KBUS itself said"


def it_is_played_again(stage: Stage) -> str:
    """The recording is played, 20 times as fast, and the listener hears the readings once more."""
    tell("`kbus play --rate 20` sends it all, 20 times as fast as it was")
    kbus("play", "--rate", "20", str(stage.recording.path))
    again: dict[str, list[str]] = {}
    for _ in range(sum(len(texts) for texts in stage.heard.values())):
        _, name, text = stage.listener.hears("of the next reading that is played")
        again.setdefault(name, []).append(text)
    check(again == stage.heard, "that is not what the listener heard the first time")
    return "the listener has heard the same again"


def a_socket_client(stage: Stage) -> str:
    """A program that knows only the sbus protocol takes part."""
    with TemporaryDirectory() as directory, Actor(bridge) as daemon, Ksock() as ksock:
        address = f"{directory}/sbus"
        daemon.tell(address)
        ksock.bind("$.House.*")
        with _connected(address) as client:
            tell(f"process {daemon.pid} is kbus-sbusd; a client of it subscribes to House/ and publishes")
            client.subscribe("House/")
            client.publish("House/living-room", "22.0 C")
            announced = ksock.wait_for_msg(PATIENCE)
            check(announced is not None, "the Ksock heard nothing")
            assert announced is not None
            tell(f"  a Ksock hears    {announced.name:28} {(announced.data or b'').decode()}")
            check(announced.name == "$.House.livingZ2Droom", "that is another name")
            ksock.send_msg(Announcement("$.House.Kitchen", "19.5 C"))
            for key, text in ((b"House/living-room", b"22.0 C"), (b"House/Kitchen", b"19.5 C")):
                message = client.receive(PATIENCE)
                check(message is not None and message[:2] == (key, text), f"the client did not hear {key!r}")
                tell(f"  the client hears {key.decode():28} {text.decode()}")
        check(daemon.hears("its exit status") == 0, "the daemon did not end well")
    return "both heard both, in one order"


def _connected(address: str) -> Client:
    """A client, as soon as the daemon listens."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return Client(address)
        except (FileNotFoundError, ConnectionRefusedError):
            check(time.monotonic() < deadline, "the daemon does not listen")
            time.sleep(0.01)


def nothing_stays(stage: Stage) -> str:
    """The processes are told to go, and they leave nothing."""
    stage.stack.close()
    (device,) = inspect.stats(0)
    tell(f"there are {len(device.ksocks)} KSocks and {device.bindings} bindings")
    check(not device.ksocks and not device.bindings, "somebody is still there")
    return "nothing was left behind"


SCENES = (
    ("Readings of this machine, once a second, heard by a listener to $.Machine.*", the_machine_speaks),
    ("A replier to $.Archive.* has heard them too, and answers requests about them", somebody_answers),
    ("/proc/kbus/bindings, while they are all there", who_is_bound),
    ("A service gets a bad request, and goes on", a_bad_request),
    ("A replier is killed in the middle of a request, and the asker is told", a_replier_is_killed),
    ("An urgent message overtakes a queue", an_urgent_message),
    ("All of it was recorded", all_of_it_was_recorded),
    ("The recording is played again, and the listener hears the same", it_is_played_again),
    ("A program that knows only the sbus protocol takes part", a_socket_client),
    ("All go, and nothing stays", nothing_stays),
)


def play(number: int, headline: str, scene: Callable[[], str]) -> bool:
    """Play a scene; True if it went as it should."""
    print(f"\n{number}. {headline}", flush=True)
    try:
        tell(f"-> {scene()}")
    except (DidNotHappen, OSError, ValueError) as error:
        tell(f"-> THIS DID NOT HAPPEN AS IT SHOULD: {error}")
        return False
    return True


def main() -> int:
    """Tell the story; the exit status."""
    if not os.path.exists("/dev/kbus0"):
        print("There is no /dev/kbus0. `make demo` runs this where there is one.", file=sys.stderr)
        return 1
    if inspect.stats(0)[0].ksocks:
        print("The demo wants /dev/kbus0 for itself, and somebody has it open.", file=sys.stderr)
        return 1
    print(f"KBUS, Linux {os.uname().release}, /dev/kbus0: processes that talk through the kernel")
    with ExitStack() as stack:
        stage = Stage(stack)
        outcomes = [
            play(number, headline, partial(scene, stage))
            for number, (headline, scene) in enumerate(SCENES, 1)
        ]
    failed = [str(number) for number, happened in enumerate(outcomes, 1) if not happened]
    if failed:
        print(f"\nOf {len(outcomes)} scenes, these did not happen as they should: {', '.join(failed)}")
        return 1
    print(f"\nAll {len(outcomes)} scenes happened as told.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
