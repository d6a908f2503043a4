# SPDX-License-Identifier: MIT
"""Requests of socket clients, and Requests that they answer."""

from __future__ import annotations

import errno
import gc
import signal
import socket
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from kbus import Ksock, Message, Reply, Request, reply_to
from kbus._failed import decode
from kbus.sbus import Client
from kbus.sbus.bridge import Bridge
from kbus.sbus.bus import BridgeKsock
from kbus.sbus.calling import (
    BUSY,
    DENIED,
    MOST_CALLERS,
    MOST_OWED,
    MOST_SERVED,
    NO_KEY,
    NO_REPLIER,
    NOT_POSSIBLE,
    REQUEST,
    TAKEN,
    TIMEOUT,
    TOO_LARGE,
)
from kbus.sbus.limits import BridgeLimits
from kbus.sbus.packets import SLASH
from tests.kernel.helpers import PATIENCE, bindings, wait_until
from tests.kernel.module import parameter
from tests.sbus.conftest import OpenKsock, StartDaemon, connected
from tests.sbus.running import Daemon, nothing_more, receive, settle


def call(client: Client, token: bytes, key: bytes, data: bytes = b"", limit: int | None = None) -> None:
    """Ask; `limit` is in milliseconds."""
    client.control("kbus/call" if limit is None else f"kbus/call/{limit}", b"\0".join((token, key, data)))


def answer(client: Client, kind: str = "kbus/answer") -> list[bytes]:
    """The next control message of this kind, taken to pieces."""
    return client.expect_control(kind.encode(), PATIENCE).payload.split(b"\0", 2)


def serve(client: Client, key: bytes) -> bytes:
    """Serve a key; the status."""
    client.control("kbus/serve", key)
    served, status, rest = answer(client, "kbus/served")
    assert (served, rest) == (key, b"")
    return status


def next_request(replier: Ksock) -> Message:
    message = replier.wait_for_msg(PATIENCE)
    assert message is not None
    assert message.wants_us_to_reply()
    return message


def failure(message: Message) -> str:
    """The kind of an answer that is an error."""
    assert message.name == "$.KBUS.Replier.Failed"
    return decode(message.data)[0]


def final(asker: Ksock) -> Message:
    """The next answer."""
    message = asker.wait_for_msg(PATIENCE)
    assert message is not None
    assert message.is_reply()
    return message


@pytest.mark.parametrize("data", [b"", b"1", b"\0", bytes(range(256)) * 5, bytes(200_001)])
def test_a_client_asks_a_ksock(daemon: StartDaemon, ksock: OpenKsock, data: bytes) -> None:
    replier = ksock()
    replier.bind("$.Double", replier=True)
    running = daemon()
    with running.client() as client, running.client() as other:
        other.subscribe("")
        settle(other)
        call(client, b"first", b"Double", data)
        request = next_request(replier)
        assert (request.data or b"") == data
        replier.send_msg(reply_to(request, data + b"!"))
        assert answer(client) == [b"first", b"", data + b"!"]
        nothing_more(client)
        # Who has subscribed hears both, as it does of KBUS programs.
        assert receive(other, 2) == [(b"Double", data), (b"Double", data + b"!")]
        nothing_more(other)


def test_a_client_is_a_replier(daemon: StartDaemon, ksock: OpenKsock) -> None:
    asker = ksock()
    with daemon().client() as client:
        assert serve(client, b"House/Lamp") == b""
        asker.send_msg(Request("$.House.Lamp", b"on"))
        token, key, data = answer(client, "kbus/request")
        assert (key, data) == (b"House/Lamp", b"on")
        client.control("kbus/reply", token + b"\0is\0on")
        reply = final(asker)
        assert isinstance(reply.cast(), Reply)
        assert (reply.name, reply.data) == ("$.House.Lamp", b"is\0on")
        client.control("kbus/unserve", "House/Lamp")
        settle(client)
        with pytest.raises(OSError) as caught:
            asker.send_msg(Request("$.House.Lamp"))
        assert caught.value.errno == errno.EADDRNOTAVAIL


def test_one_client_asks_another(daemon: StartDaemon) -> None:
    running = daemon()
    with running.client() as asker, running.client() as replier:
        assert serve(replier, b"a/b") == b""
        for number in range(300):
            call(asker, b"%d" % number, b"a/b", b"x" * number)
            token, _, data = answer(replier, "kbus/request")
            replier.control("kbus/reply", token + b"\0" + data)
            assert answer(asker) == [b"%d" % number, b"", b"x" * number]


def test_what_fails_is_answered_too(daemon: StartDaemon, ksock: OpenKsock) -> None:
    # The daemon, which is forked, would keep a replier that was there before it.
    with daemon().client() as client:
        replier = ksock()
        replier.set_max_messages(1)
        replier.bind("$.Full", replier=True)
        for key, status in (
            (b"Nobody", NO_REPLIER),
            (b"KBUS/a", NO_KEY),
            (b"!/cred///x", NO_KEY),
            (b"a" * 1200, NO_KEY),
        ):
            call(client, b"t", key)
            assert answer(client) == [b"t", status, b""]
        call(client, b"one", b"Full")
        call(client, b"two", b"Full")
        assert answer(client) == [b"two", BUSY, b""]
        replier.close()
        assert answer(client) == [b"one", b"KBUS/Replier/GoneAway", b""]


def test_rule_no_call_or_reply_makes_a_packet_longer_than_may_be(
    daemon: StartDaemon, ksock: OpenKsock
) -> None:
    """What would is refused at once, and of an answer that would there is only a status."""
    with daemon("--max-packet", "1000").client() as client:
        replier = ksock()
        replier.bind("$.Long", replier=True)
        call(client, b"t", b"Long", b"x" * 970)
        assert answer(client) == [b"t", TOO_LARGE, b""]
        call(client, b"t", b"Long")
        replier.send_msg(reply_to(next_request(replier), b"x" * 1000))
        assert answer(client) == [b"t", TOO_LARGE, b""]
        assert serve(client, b"Mine") == b""
        call(client, b"t", b"Mine")
        token = client.expect_control(REQUEST, PATIENCE).payload.split(b"\0")[0]
        client.control("kbus/reply", token + b"\0" + b"x" * 930)
        client.control("kbus/reply", token + b"\0short")
        assert answer(client) == [b"t", b"", b"short"]


def test_as_many_calls_wait_as_have_room(daemon: StartDaemon, ksock: OpenKsock) -> None:
    replier = ksock()
    replier.set_max_messages(1000)
    replier.bind("$.Slow", replier=True)
    with daemon().client() as client:
        for number in range(101):
            call(client, b"%d" % number, b"Slow")
        assert answer(client) == [b"100", BUSY, b""]
        for number in range(100):
            replier.send_msg(reply_to(next_request(replier), b"%d" % number))
        assert [answer(client) for _ in range(100)] == [
            [b"%d" % number, b"", b"%d" % number] for number in range(100)
        ]


def test_what_cannot_be_served(daemon: StartDaemon, ksock: OpenKsock) -> None:
    ksock().bind("$.Taken", replier=True)
    with daemon().client() as client:
        assert serve(client, b"Taken") == TAKEN
        assert serve(client, b"KBUS/a") == NO_KEY
        assert serve(client, b"!/cred///x") == NO_KEY
        assert [serve(client, b"%d" % number) for number in range(MOST_SERVED)] == [b""] * MOST_SERVED
        assert serve(client, b"Another") == NOT_POSSIBLE
        client.control("kbus/unserve", "0")
        assert serve(client, b"Another") == b""


def test_a_user_has_so_many_callers(daemon: StartDaemon) -> None:
    running = daemon()
    with ExitStack() as stack:
        clients = [stack.enter_context(running.client()) for _ in range(MOST_CALLERS + 1)]
        for client in clients:
            call(client, b"t", b"Nobody")
        assert [answer(client)[1] for client in clients] == [NO_REPLIER] * MOST_CALLERS + [NOT_POSSIBLE]
        clients[0].close()
        wait_until(lambda: running.stats()[0]["clients"] == MOST_CALLERS + 1, "it has left")
        call(clients[-1], b"t", b"Nobody")
        assert answer(clients[-1]) == [b"t", NO_REPLIER, b""]


@pytest.mark.parametrize("is_read", [False, True])
def test_who_leaves_answers_no_more(daemon: StartDaemon, ksock: OpenKsock, is_read: bool) -> None:
    asker = ksock()
    with daemon().client() as client:
        assert serve(client, b"a") == b""
        if not is_read:
            # Its Requests wait in KBUS while it has something to read.
            client.control("blocking/soft/queue")
        asker.send_msg(Request("$.a"))
        if is_read:
            answer(client, "kbus/request")
    assert final(asker).name == "$.KBUS.Replier.Ignored"
    wait_until(lambda: not [line for line in bindings() if line.name == "$.a"], "nobody is bound")


def test_who_has_asked_and_left_is_not_answered(daemon: StartDaemon, ksock: OpenKsock) -> None:
    replier = ksock()
    replier.bind("$.a", replier=True)
    running = daemon()
    with running.client() as client:
        call(client, b"t", b"a")
        request = next_request(replier)

    def is_refused() -> bool:
        try:
            replier.send_msg(reply_to(request))
        except OSError as error:
            return error.errno == errno.EADDRNOTAVAIL
        return True

    wait_until(lambda: running.stats()[0]["clients"] == 1, "it has left")
    assert is_refused()


def test_a_replier_that_does_not_read(daemon: StartDaemon, ksock: OpenKsock) -> None:
    """Its queue has a limit; then whoever asks is answered with an error, and nobody else waits."""
    asker = ksock()
    asker.set_max_messages(10_000)
    running = daemon("--max-queued", "50")
    with running.client() as client, running.client() as other:
        assert serve(client, b"a") == b""
        while asker.num_messages() < 3:
            asker.send_msg(Request("$.a", bytes(4096)))
            settle(other)
        assert running.stats()[0]["queued"] == 50
        assert failure(final(asker)) == "Busy"
        call(other, b"t", b"Nobody")
        assert answer(other) == [b"t", NO_REPLIER, b""]


def test_rule_calls_take_no_memory_of_kbus(daemon: StartDaemon, ksock: OpenKsock) -> None:
    """Whoever serves and does not read is charged for what waits, and so are those who have asked it."""
    listener, publisher = ksock(), ksock()
    listener.bind("$.other")
    running = daemon("--max-user-queued-bytes", "1000000")
    with ExitStack() as stack, running.client() as client:
        servers, callers = ([stack.enter_context(running.client()) for _ in range(4)] for _ in range(2))
        for number, server in enumerate(servers):
            assert serve(server, b"s%d" % number) == b""
        with parameter("max_user_bytes", 4_000_000):
            for number, caller in enumerate(callers):
                for _ in range(20):
                    call(caller, b"t", b"s%d" % number, bytes(300_000))
                settle(caller)
            settle(client)
            publisher.send_msg(Message("$.other", bytes(400_000)))
            message = listener.wait_for_msg(PATIENCE)
            assert message is not None and message.data == bytes(400_000)
        for caller in callers:
            # What does not wait at its server has been answered.
            told = caller.receive(PATIENCE)
            assert told is not None
            assert told.payload.startswith((b"t\0KBUS/Replier/Failed\0Busy\n", b"t\0busy\0"))


def test_rule_a_call_may_have_a_limit_of_time(daemon: StartDaemon, ksock: OpenKsock) -> None:
    """Then it has its answer, and the one that comes too late is refused."""
    replier = ksock()
    replier.bind("$.a", replier=True)
    with daemon().client() as client:
        for _ in range(100):
            call(client, b"in time", b"a", limit=60_000)
            replier.send_msg(reply_to(next_request(replier)))
            assert answer(client) == [b"in time", b"", b""]
        call(client, b"for ever", b"a")
        call(client, b"long", b"a", limit=60_000)
        call(client, b"short", b"a", limit=1)
        assert answer(client) == [b"short", TIMEOUT, b""]
        requests = [next_request(replier) for _ in range(2)]
        for request in requests:
            replier.send_msg(reply_to(request))
        assert [answer(client)[0] for _ in requests] == [b"for ever", b"long"]
        for wrong in (b"", b"0", b"-1", b"1.5", b"86400001", b"9" * 5000):
            client.control(b"kbus/call/" + wrong, b"t\0a\0")
        assert client.dropped(PATIENCE) == {"unknown-request": 6}


def test_who_serves_and_receives_no_more_is_no_replier(daemon: StartDaemon, ksock: OpenKsock) -> None:
    """It has closed its receiving side; what it is asked is answered, and it may go on publishing."""
    asker, running = ksock(), daemon()
    with running.socket() as half, running.client() as client:
        client.subscribe("b")
        settle(client)
        half.send(b"CMSG kbus/serve\0a")
        assert half.recv(100) == b"CMSG kbus/served\0a\0\0"
        half.shutdown(socket.SHUT_RD)
        asker.send_msg(Request("$.a"))
        assert final(asker).name == "$.KBUS.Replier.Ignored"
        wait_until(lambda: asker.find_replier("$.a") is None, "it serves no more")
        half.send(b"MSG b\0")
        assert receive(client, 1) == [(b"b", b"")]


@pytest.mark.parametrize("before", [0, 1, 200])
def test_who_replies_and_closes_at_once_has_replied(
    daemon: StartDaemon, ksock: OpenKsock, before: int
) -> None:
    """Whatever it has sent before the reply; a Request that it leaves open is over when it goes."""
    running, askers = daemon(), [ksock(), ksock()]
    with running.client() as leaving:
        assert serve(leaving, b"a") == b""
        for asker in askers:
            asker.send_msg(Request("$.a"))
        tokens = [answer(leaving, "kbus/request")[0] for _ in askers]
        running.signal(signal.SIGSTOP)
        for number in range(before):
            leaving.publish("b", b"%d" % number)
        leaving.control("kbus/reply", tokens[0] + b"\0done")
    running.signal(signal.SIGCONT)
    assert (final(askers[0]).name, final(askers[1]).name) == ("$.a", "$.KBUS.Replier.Ignored")
    assert running.dropped() == {}


def test_rules_are_for_requests_too(daemon: StartDaemon, tmp_path: Path, ksock: OpenKsock) -> None:
    ksock().bind("$.a.x", replier=True)
    rules = tmp_path / "rules"
    rules.write_text("allow publish * b/\nallow subscribe * a/\nallow both * c/\n")
    running = daemon("--access", str(rules))
    with running.client() as client:
        call(client, b"t", b"a/x")
        assert answer(client) == [b"t", DENIED, b""]
        call(client, b"t", b"b/x")
        assert answer(client) == [b"t", NO_REPLIER, b""]
        assert [serve(client, key) for key in (b"a/y", b"b/y", b"c/y")] == [DENIED, DENIED, b""]
        assert running.dropped() == {"publish-denied": 2, "subscribe-denied": 1}


def test_a_reply_for_which_there_was_no_memory_can_be_sent_again(
    daemon: StartDaemon, ksock: OpenKsock
) -> None:
    asker = ksock()
    with daemon().client() as client:
        assert serve(client, b"a") == b""
        asker.send_msg(Request("$.a"))
        token, _, _ = answer(client, "kbus/request")
        reply = token + b"\0" + bytes(100_000)
        with parameter("max_user_bytes", 1000):
            client.control("kbus/reply", reply)
            settle(client)
        assert client.dropped(PATIENCE) == {"unknown-request": 1}
        assert asker.num_messages() == 0
        client.control("kbus/reply", reply)
        assert final(asker).data == bytes(100_000)
        client.control("kbus/reply", reply)
        assert client.dropped(PATIENCE) == {"unknown-request": 2}


def test_a_reply_that_the_asker_has_no_room_for_is_over(daemon: StartDaemon, ksock: OpenKsock) -> None:
    asker = ksock()
    asker.bind("$.b")
    with daemon().client() as client:
        assert serve(client, b"a") == b""
        asker.send_msg(Request("$.a"))
        token, _, _ = answer(client, "kbus/request")
        with parameter("max_queue_bytes", 5000):
            asker.send_msg(Message("$.b", bytes(2000)))
            client.control("kbus/reply", token + b"\0" + bytes(4000))
            settle(client)
        assert client.dropped(PATIENCE) == {"unknown-request": 1}
        assert asker.wait_for_msg(0) is not None
        assert final(asker).name == "$.KBUS.Replier.NoRoom"
        client.control("kbus/reply", token + b"\0")
        assert client.dropped(PATIENCE) == {"unknown-request": 2}
        assert asker.wait_for_msg(0) is None


def test_a_client_that_owes_much_gets_no_more_until_it_answers(daemon: StartDaemon, ksock: OpenKsock) -> None:
    asker = ksock()
    asker.set_max_messages(10_000)
    with daemon().client() as client:
        assert serve(client, b"a") == b""
        tokens = []
        for _ in range(MOST_OWED):
            asker.send_msg(Request("$.a"))
            tokens.append(answer(client, "kbus/request")[0])
        asker.send_msg(Request("$.a"))
        assert failure(final(asker)) == "Busy"
        client.control("kbus/reply", tokens[0] + b"\0")
        settle(client)
        asker.send_msg(Request("$.a"))
        assert answer(client, "kbus/request")[0] not in tokens


def test_who_comes_after_a_replier_that_has_left_is_one_too(daemon: StartDaemon, ksock: OpenKsock) -> None:
    """Whatever descriptors it has got from that one."""
    asker, running = ksock(), daemon()
    for _ in range(3):
        with running.client() as client:
            assert serve(client, b"a") == b""
            asker.send_msg(Request("$.a"))
            token, _, _ = answer(client, "kbus/request")
            client.control("kbus/reply", token + b"\0")
            assert final(asker).name == "$.a"
        wait_until(lambda: asker.find_replier("$.a") is None, "it has left")


def test_serving_waits_for_nobody_who_does_not_read(daemon: StartDaemon, ksock: OpenKsock) -> None:
    """Rule 32: a listener to binds that has no room makes them fail."""
    listener = ksock()
    listener.bind("$.KBUS.ReplierBindEvent")
    listener.set_max_messages(1)
    with daemon().client() as client:
        listener.report_replier_binds(True)
        try:
            assert [serve(client, key) for key in (b"a", b"b")] == [b"", BUSY]
        finally:
            while listener.read_next_msg() is not None:
                pass
            listener.report_replier_binds(False)


def test_only_what_was_sent_counts_as_published(daemon: StartDaemon, ksock: OpenKsock) -> None:
    running = daemon()
    with running.client() as client:
        replier = ksock()
        for key in (b"a", b"KBUS/a"):
            call(client, b"t", key)
            assert answer(client)[1] in (NO_REPLIER, NO_KEY)
        assert running.stats()[0]["published"] == 0
        replier.bind("$.a", replier=True)
        call(client, b"t", b"a")
        replier.send_msg(reply_to(next_request(replier)))
        assert answer(client)[1] == b""
        assert running.stats()[0]["published"] == 1


def test_nonsense_is_counted(daemon: StartDaemon) -> None:
    running: Daemon = daemon()
    with running.client() as client:
        for kind, payload in (
            ("kbus/call", b""),
            ("kbus/call", b"token\0key"),
            ("kbus/call", b"t" * 65 + b"\0key\0"),
            ("kbus/unserve", b"a"),
            ("kbus/reply", b"1"),
            ("kbus/reply", b"1\0"),
        ):
            client.control(kind, payload)
        settle(client)
        assert running.dropped()["unknown-request"] == 6
        assert client.dropped(PATIENCE) == {"unknown-request": 6}


def test_nothing_of_what_is_refused_stays(ksock: OpenKsock) -> None:
    """Without a search for cycles, as the daemon makes none."""
    asker = ksock()
    asker.bind("$.taken", replier=True)
    longest = asker.max_message_size()
    with closing(BridgeKsock(0)) as bus:
        bridge = Bridge(bus, SLASH, "$", BridgeLimits())
        with connected(bridge) as peer:
            bridge.take(peer, [b"CMSG kbus/serve\0a"])
            asker.send_msg(Request("$.a"))
            assert peer.calls is not None
            peer.calls.bring()
            asker.set_max_message_size(100_000)
            gc.collect()
            gc.disable()
            try:
                bridge.take(peer, [b"CMSG kbus/serve\0taken", b"CMSG kbus/serve\0KBUS/a"])
                bridge.take(peer, [b"CMSG kbus/call\0t\0Nobody\0", b"CMSG kbus/call\0t\0KBUS/a\0"])
                bridge.take(peer, [b"CMSG kbus/unserve\0b", b"CMSG kbus/reply\0002\0", b"SUB KBUS.a"])
                with parameter("max_user_bytes", 1000):
                    bridge.take(peer, [b"CMSG kbus/reply\0001\0" + bytes(90_000)])
                assert gc.collect() == 0
                bridge.take(peer, [b"CMSG kbus/reply\0001\0" + bytes(100_000)])
                assert peer.counts.dropped["too-large"] == 1
                assert gc.collect() == 0
                bridge.take(peer, [b"CMSG kbus/reply\0001\0"])
                assert final(asker).name == "$.a"
            finally:
                gc.enable()
                asker.set_max_message_size(longest)
