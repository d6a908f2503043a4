# SPDX-License-Identifier: MIT
"""whoami and secret messages, against clients that lie, fork, pass their descriptors or die."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from kbus import Announcement
from kbus.sbus import Client, Received
from tests.kernel.helpers import PATIENCE, wait_until
from tests.kernel.processes import NOBODY, become, in_child
from tests.sbus.conftest import OpenKsock, StartDaemon
from tests.sbus.orphan import orphan
from tests.sbus.running import connected, is_closed, nothing_more, receive, settle

PATTERNS: list[str | bytes] = [
    "",
    "*",
    "*/",
    "*/*/",
    "*/cred/",
    "*/cred/*/*/*/*",
    "!*/",
    "!*/cred/",
    "*!/cred/",
    "**/",
    "*/cr*d/*/*/*/x",
]


def me(rest: bytes = b"x") -> bytes:
    return b"!/cred/%d/%d/%d/" % (os.getgid(), os.getuid(), os.getpid()) + rest


def test_rule_whoami(daemon: StartDaemon) -> None:
    with daemon().client() as client:
        assert client.whoami(PATIENCE) + b"/x" == me()


def test_rule_whoami_with_a_prefix(daemon: StartDaemon) -> None:
    with daemon("--credential-prefix", "!/cred/1/2/3").client() as client:
        own = client.whoami(PATIENCE)
        assert own + b"/x" == b"!/cred/1/2/3/" + me()
        client.subscribe(own + b"/x")
        client.publish(own + b"/x", b"1")
        assert receive(client, 1) == [(own + b"/x", b"1")]


def test_whoami_of_another_user(daemon: StartDaemon) -> None:
    running = daemon("-o")
    os.chmod(Path(running.path).parent, 0o755)

    def ask() -> tuple[bytes, int]:
        become(NOBODY)
        with Client(running.path) as client:
            return client.whoami(PATIENCE), os.getpid()

    said, pid = in_child(ask)
    assert said == b"!/cred/%d/%d/%d" % (NOBODY, NOBODY, pid)


@pytest.mark.parametrize("uid", [2**31, 2**32 - 2])
def test_rule_any_user_can_be_told(daemon: StartDaemon, uid: int) -> None:
    """Also those whose ids are negative for whoever takes them for signed numbers."""
    running = daemon("-o", "-u", str(uid))
    os.chmod(Path(running.path).parent, 0o755)

    def ask() -> tuple[bytes, int]:
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        with Client(running.path) as client:
            return client.whoami(PATIENCE), os.getpid()

    said, pid = in_child(ask)
    assert said == b"!/cred/%d/%d/%d" % (uid, uid, pid)


def test_rule_secrets_never_touch_the_device(daemon: StartDaemon, ksock: OpenKsock) -> None:
    listener = ksock()
    listener.bind("$.*")
    with daemon().client() as client:
        client.subscribe(me())
        client.publish(me(), b"secret")
        assert receive(client, 1) == [(me(), b"secret")]
        client.publish("public", b"")
        assert listener.wait_for_msg(PATIENCE).name == "$.public"  # type: ignore[union-attr]
        assert listener.read_next_msg() is None


def test_rule_no_pattern_receives_anothers_secrets(daemon: StartDaemon) -> None:
    running = daemon()
    theirs = me(b"")
    with running.client() as owner:
        owner.subscribe(theirs)
        settle(owner)

        def spy() -> list[Received]:
            with Client(running.path) as client:
                for pattern in PATTERNS:
                    client.subscribe(pattern)
                for own in (theirs, theirs + b"x", theirs + b"*"):
                    client.subscribe(own)
                for key in (b"x", b"a/b"):
                    client.publish(theirs + key, b"secret")
                client.subscribe("the/end")
                client.publish("the/end")
                found: list[Received] = []
                while (message := client.receive(PATIENCE)) is not None and message.key != b"the/end":
                    found.append(message)
                return found

        assert in_child(spy) == []
        assert receive(owner, 2) == [(me(b"x"), b"secret"), (me(b"a/b"), b"secret")]
        # Those with ! as a whole segment are none of the protocol's; three were for somebody else.
        assert running.dropped() == {"credentials": 3}


def test_rule_a_kbus_program_cannot_forge_a_secret(daemon: StartDaemon, ksock: OpenKsock) -> None:
    """The names that such keys would have are those of other keys."""
    with daemon().client() as client:
        client.subscribe(me(b""))
        client.subscribe("")
        settle(client)
        name = "$.Z21.cred." + me().decode()[len("!/cred/") :].replace("/", ".")
        ksock().send_msg(Announcement(name, b"forged"))
        assert receive(client, 1) == [(b"Z21" + me()[1:], b"forged")]


@pytest.mark.parametrize("send", ["SUB", "UNSUB", "MSG"])
@pytest.mark.parametrize("key", ["!/cred/*/0/0/x", "!/cred/0/0/0", "!/cred/", "!/cred/whoami"])
def test_rule_stars_and_truncated_keys_disconnect(daemon: StartDaemon, send: str, key: str) -> None:
    running = daemon()
    with connected(running.path) as client:
        client.send(f"{send} {key}\0".encode())
        assert is_closed(client)


def test_rule_other_uses_of_the_token_are_ignored_and_counted(daemon: StartDaemon, ksock: OpenKsock) -> None:
    running = daemon()
    listener = ksock()
    listener.bind("$.*")
    with running.client() as client:
        for key in ("!", "a/!/b", "!/x", "!/cred"):
            client.subscribe(key)
            client.unsubscribe(key)
            client.publish(key)
        settle(client)
        assert running.dropped() == {"reserved-token": 12}
        assert listener.read_next_msg() is None


def test_dot_has_no_secrets_and_no_reserved_token(daemon: StartDaemon) -> None:
    """Revisions 1 and 2: ! is a byte like any other, and control messages are malformed."""
    running = daemon("--protocol", "dot")
    with running.client(protocol="dot") as client:
        client.subscribe("!.cred.")
        client.publish("!.cred.1.2.3.x", b"1")
        client.publish("a/b", b"")
        assert receive(client, 1) == [(b"!.cred.1.2.3.x", b"1")]
        client.send(b"CMSG", "!/cred/whoami")
        client.publish("!.cred.", b"2")
        assert receive(client, 1) == [(b"!.cred.", b"2")]
    wait_until(lambda: "begins no message of the protocol" in running.said(), "it is told of")


def test_rule_empty_components(daemon: StartDaemon) -> None:
    """As a subscriber they are the own ones; they can be unsubscribed from in either spelling."""
    with daemon().client() as client:
        client.subscribe("!/cred////x")
        client.publish(me(b"x"), b"1")
        client.unsubscribe(me(b"x"))
        client.publish(me(b"x"), b"2")
        client.subscribe("!/cred////x")
        client.publish("!/cred////x", b"3")
        assert receive(client, 2) == [(me(b"x"), b"1"), (b"!/cred////x", b"3")]


@pytest.mark.parametrize("others", [0, 1000, 65535])
def test_rule_supplementary_groups(daemon: StartDaemon, others: int) -> None:
    running = daemon("-o")
    os.chmod(Path(running.path).parent, 0o755)

    def member() -> list[bytes]:
        os.setgroups([4321, *range(5000, 5000 + others)])
        with Client(running.path) as client:
            key = b"!/cred/4321/%d/%d/x" % (os.getuid(), os.getpid())
            client.subscribe(key)
            client.subscribe(key.replace(b"4321", b"4322"))
            client.publish(key.replace(b"4321", b"4322"), b"no")
            client.publish(key, b"yes")
            return [payload for _, payload in receive(client, 1)]

    assert in_child(member) == [b"yes"]


def test_rule_groups_take_no_memory(daemon: StartDaemon) -> None:
    """A user may have 65,536 of them, and each client of its have the daemon keep them."""
    running = daemon("-o")
    os.chmod(Path(running.path).parent, 0o755)

    def member() -> int:
        os.setgroups(range(1, 65537))
        before = running.memory()
        with ExitStack() as stack:
            for _ in range(20):
                settle(stack.enter_context(running.client()))
            return running.memory() - before

    assert in_child(member) < 4 << 20


def test_rule_a_child_speaks_for_who_connected(daemon: StartDaemon) -> None:
    """A fork, or whoever is given the descriptor, is the one who connected, as long as that one lives."""
    with daemon().client() as client:

        def child() -> bytes:
            return client.whoami(PATIENCE)

        assert in_child(child) + b"/x" == me()


def test_rule_the_dead_have_no_identity(daemon: StartDaemon) -> None:
    """Whoever reuses the id of a process that has ended gets its own messages, and its heirs get none."""
    running = daemon()
    subscribed: list[bytes] = []

    def subscribe(client: Client) -> None:
        client.subscribe(b"!/cred////x")
        client.subscribe("public")
        subscribed.append(client.whoami(PATIENCE))

    heir, pid = orphan(running, subscribe)
    key = b"!/cred/%d/%d/%d/" % (os.getgid(), os.getuid(), pid)
    Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
    reused = os.fork()
    if reused == 0:
        with Client(running.path) as client:
            client.subscribe(b"!/cred////x")
            client.publish(b"ready")
            message = client.receive(PATIENCE)
            os._exit(0 if message is not None and message.payload == b"secret" else 1)
    assert reused == pid
    with running.client() as client:
        wait_until(
            lambda: any(each.get("pid") == pid and each["subscriptions"] == 1 for each in running.stats()),
            "it",
        )
        client.publish(key + b"x", b"secret")
        client.publish("public", b"not secret")
        assert heir.recv(100) == b"MSG public\0not secret"
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    heir.send(b"CMSG !/cred/whoami")
    heir.send(b"SUB " + key + b"y")
    heir.send(b"MSG public\0end")
    assert heir.recv(100) == b"MSG public\0end"
    assert running.dropped() == {"credentials": 2}
    with running.client() as client:
        client.publish(key + b"y", b"secret")
        client.publish("public", b"not secret")
        assert heir.recv(100) == b"MSG public\0not secret"
    heir.close()


def test_two_clients_can_prove_who_they_are(daemon: StartDaemon) -> None:
    """The protocol text's example."""
    running = daemon()
    with running.client() as a, running.client() as b:
        own = a.whoami(PATIENCE)
        a.subscribe(own + b"/a")
        b.subscribe(b.whoami(PATIENCE) + b"/b")
        b.subscribe("hello")
        settle(b)
        a.publish("hello", own)
        b.publish(receive(b, 1)[0][1] + b"/a", b.whoami(PATIENCE))
        a.publish(receive(a, 1)[0][1] + b"/b", b"random")
        b.publish(own + b"/a", receive(b, 1)[0][1])
        assert receive(a, 1) == [(own + b"/a", b"random")]
        nothing_more(a)
