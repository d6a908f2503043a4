# SPDX-License-Identifier: MIT
"""Messages between socket clients and KBUS programs, both ways."""

from __future__ import annotations

import socket

import pytest

from kbus import Announcement, Message, MessageId, OrigFrom, Request, reply_to
from kbus.sbus import Received
from kbus.sbus.keymap import KeyMap
from kbus.sbus.packets import SLASH
from tests.kernel.helpers import PATIENCE, bindings, wait_until
from tests.sbus.conftest import OpenKsock, StartDaemon
from tests.sbus.running import SNDBUFFORCE, nothing_more, receive, settle


def test_a_socket_client_hears_an_announcement(daemon: StartDaemon, ksock: OpenKsock) -> None:
    with daemon().client() as client:
        client.subscribe("Sensors/Kitchen")
        settle(client)
        ksock().send_msg(Announcement("$.Sensors.Kitchen", b"21.5"))
        assert client.receive(PATIENCE) == Received(b"Sensors/Kitchen", b"21.5", False)


def test_a_ksock_hears_a_publication(daemon: StartDaemon, ksock: OpenKsock) -> None:
    listener = ksock()
    listener.bind("$.Sensors.*")
    with daemon().client() as client:
        client.publish("Sensors/Kitchen", b"21.5")
        message = listener.wait_for_msg(PATIENCE)
        assert message is not None
        assert (message.name, message.data) == ("$.Sensors.Kitchen", b"21.5")
        assert not message.is_request()


def test_rule_a_publication_goes_through_the_kernel(daemon: StartDaemon, ksock: OpenKsock) -> None:
    """And it can be told from others' by where it comes from."""
    listener = ksock()
    listener.bind("$.*")
    running = daemon()
    with running.client() as client:
        client.subscribe("a")
        client.publish("a", b"1")
        assert receive(client, 1) == [(b"a", b"1")]
        message = listener.wait_for_msg(PATIENCE)
        assert message is not None
        assert message.from_ == running.stats()[0]["ksock"]
        assert listener.peer(message.from_).pid == running.pid


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 5, 63, 64, 65, 4095, 65536, 200_000])
def test_rule_payloads_pass_unchanged(daemon: StartDaemon, ksock: OpenKsock, length: int) -> None:
    payload = bytes(range(256)) * (length // 256) + bytes(range(length % 256))
    listener = ksock()
    listener.bind("$.a")
    with daemon().client() as client:
        # armhf's sockets have less room by themselves.
        client._socket.setsockopt(socket.SOL_SOCKET, SNDBUFFORCE, 1 << 20)
        client.subscribe("a")
        client.publish("a", payload)
        assert receive(client, 1) == [(b"a", payload)]
        message = listener.wait_for_msg(PATIENCE)
        assert message is not None
        assert (message.data or b"") == payload
        listener.send_msg(Announcement("$.a", payload))
        assert receive(client, 1) == [(b"a", payload)]


def test_keys_with_every_awkward_byte_survive(daemon: StartDaemon, ksock: OpenKsock) -> None:
    keys = [bytes([byte]) for byte in range(1, 256) if byte != ord("!")]
    keys += [b"a%cb/" % byte for byte in range(1, 256)] + [b"Z%02X" % byte for byte in range(256)]
    listener = ksock()
    listener.set_max_messages(1000)
    listener.bind("$.*")
    keymap = KeyMap(SLASH)
    with daemon().client() as client:
        client.subscribe("")
        for key in keys:
            client.publish(key, key)
        assert receive(client, len(keys)) == [(key, key) for key in keys]
        names = [message.name for message in listener]
        assert [keymap.key(name.encode()) for name in names] == keys
        for name in names:
            ksock().send_msg(Announcement(name))
        assert [key for key, _ in receive(client, len(keys))] == keys


def test_rule_requests_and_replies_are_plain_messages(daemon: StartDaemon, ksock: OpenKsock) -> None:
    """The bridge never answers, and never is the replier."""
    asker, replier = ksock(), ksock()
    replier.bind("$.Ask", replier=True)
    with daemon().client() as client:
        client.subscribe("Ask")
        settle(client)
        asker.send_msg(Request("$.Ask", b"question"))
        request = replier.wait_for_msg(PATIENCE)
        assert request is not None
        replier.send_msg(reply_to(request, b"answer"))
        assert receive(client, 2) == [(b"Ask", b"question"), (b"Ask", b"answer")]
        assert asker.wait_for_msg(PATIENCE).data == b"answer"  # type: ignore[union-attr]
        assert {each.kind for each in bindings() if each.ksock_id != replier.ksock_id()} == {"L"}


def test_messages_with_all_that_kbus_has(daemon: StartDaemon, ksock: OpenKsock) -> None:
    """Urgent ones, those with an extended header, and those with an id of their own."""
    with daemon().client() as client:
        client.subscribe("a")
        settle(client)
        sender = ksock()
        for message in (
            Announcement("$.a", b"urgent", flags=Message.URGENT),
            Announcement("$.a", b"from afar", orig_from=OrigFrom(3, 4), flags=Message.EXTENDED),
            Announcement("$.a", b"numbered", id=MessageId(7, 8)),
            Announcement("$.a", b"numbered", id=MessageId(7, 8)),
        ):
            sender.send_msg(message)
            assert client.receive(PATIENCE) == Received(b"a", message.data or b"")
        nothing_more(client)


def test_rule_kbus_own_names_are_heard_and_not_published(daemon: StartDaemon, ksock: OpenKsock) -> None:
    running = daemon()
    with running.client() as client:
        client.subscribe("KBUS/")
        settle(client)
        asker, replier = ksock(), ksock()
        replier.bind("$.Ask", replier=True)
        asker.send_msg(Request("$.Ask"))
        replier.close()
        assert receive(client, 1) == [(b"KBUS/Replier/GoneAway", b"")]
        client.publish("KBUS/Replier/GoneAway", b"")
        nothing_more(client)
        assert running.dropped() == {"names-of-kbus": 1}


def test_rule_bindings_are_shared_counted_and_tight(daemon: StartDaemon) -> None:
    running = daemon()

    def bound() -> list[str]:
        return sorted(each.name for each in bindings())

    with running.client() as one, running.client() as other:
        for client in (one, other):
            client.subscribe("a/b")
            settle(client)
        assert bound() == ["$.a.b"]
        one.subscribe("c/*/d")
        one.subscribe("e/f*")
        settle(one)
        assert bound() == ["$.a.b", "$.c.*", "$.e.%"]
        one.close()
        wait_until(lambda: bound() == ["$.a.b"], "what nobody wants is unbound")
        other.unsubscribe("a/b")
        wait_until(lambda: bound() == [], "nothing is bound")


def test_rule_two_bridges_see_one_order(daemon: StartDaemon, ksock: OpenKsock) -> None:
    one, other = daemon(name="one"), daemon(name="other")
    sender = ksock()
    with one.client() as left, other.client() as right:
        for client in (left, right):
            client.subscribe("n/")
            settle(client)
        for number in range(50):
            left.publish("n/left", b"%d" % number)
            right.publish("n/right", b"%d" % number)
            sender.send_msg(Announcement("$.n.ksock", b"%d" % number))
        heard = receive(left, 150)
        assert receive(right, 150) == heard
        for who in (b"n/left", b"n/right", b"n/ksock"):
            assert [payload for key, payload in heard if key == who] == [b"%d" % n for n in range(50)]


def test_other_devices_and_roots(daemon: StartDaemon, ksock: OpenKsock) -> None:
    listener = ksock()
    listener.bind("$.*")
    with daemon("--root", "$.Home.Sbus").client() as client:
        client.subscribe("")
        client.publish("a/b", b"1")
        assert receive(client, 1) == [(b"a/b", b"1")]
        assert listener.wait_for_msg(PATIENCE).name == "$.Home.Sbus.a.b"  # type: ignore[union-attr]
        assert [each.name for each in bindings() if each.ksock_id != listener.ksock_id()] == ["$.Home.Sbus.*"]


def test_rule_names_that_are_too_long(daemon: StartDaemon) -> None:
    running = daemon()
    with running.client() as client:
        client.subscribe("")
        client.publish("a" * 998, b"fits")
        for _ in range(20):
            client.publish("a" * 999, b"does not")
        client.subscribe("a" * 999)
        assert receive(client, 1) == [(b"a" * 998, b"fits")]
        nothing_more(client)
        assert running.dropped() == {"name-too-long": 20}
        assert running.said().count("name-too-long") == 1


def test_what_is_published_before_unsubscribing_comes(daemon: StartDaemon) -> None:
    with daemon().client() as client:
        for number in range(50):
            client.subscribe("a")
            client.publish("a", b"%d" % number)
            client.unsubscribe("a")
            client.publish("a", b"not this")
        assert receive(client, 50) == [(b"a", b"%d" % number) for number in range(50)]
        nothing_more(client)


def test_leaving_and_coming_loses_nothing_for_others(daemon: StartDaemon, ksock: OpenKsock) -> None:
    """Wide and narrow subscriptions come and go while messages flow; who stays gets each one once."""
    running = daemon()
    sender = ksock()
    with running.client() as stays, running.client() as changes:
        stays.subscribe("a/b")
        settle(stays)
        sent = 0
        for pattern in ["", "a/", "a/*", "a/b", "*/b", "a/b*"] * 10:
            changes.subscribe(pattern)
            for is_last in (False, True):
                for _ in range(20):
                    sender.send_msg(Announcement("$.a.b", b"%d" % sent))
                    sent += 1
                if not is_last:
                    changes.unsubscribe(pattern)
        assert receive(stays, sent) == [(b"a/b", b"%d" % number) for number in range(sent)]
        nothing_more(stays)
