# SPDX-License-Identifier: MIT
"""The other end of ``kbus bench``: counts the messages that come, and answers requests with their data."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import traceback
from types import TracebackType
from typing import Optional

from .. import Announcement, Ksock, Message, SendManyError, reply_to
from ..terminal.failures import Failure
from ..terminal.ksocks import bind, open_ksock, send_kept
from ..terminal.output import flush, tell
from ..terminal.signals import EndSignals

__all__ = ["COUNTED", "END", "PATIENCE", "BenchPeer", "send_each"]

#: The last words of the names: what is counted, and what asks for the count
COUNTED, END = "Counted", "End"
_ASKED, _STOP = "Asked", "Stop"
#: Seconds that an answer may take, and room for a message
PATIENCE = 10.0
#: Seconds after which a peer notices that its parent has been killed, or needs it no more
_ORPHAN = 1.0


def send_each(ksock: Ksock, messages: list[Message], signals: EndSignals) -> bool:
    """Send messages with ALL_OR_WAIT on a non-blocking KSock; False if a signal came while one waits.

    A listener may have no room, and never read. Raises the Failure of a time-out then, and OSError.
    Nothing is kept.
    """
    while messages:
        try:
            if len(messages) == 1:
                ksock.send_msg(messages[0])
            else:
                ksock.send_many(messages)
            return True
        except BlockingIOError:
            messages = []
        except SendManyError as error:
            if not error.kept:
                raise
            messages = messages[len(error.sent) + 1 :]
        try:
            sent = send_kept(ksock, signals, PATIENCE)
        except BaseException:
            ksock.discard()
            raise
        if sent is None:
            ksock.discard()
            return False
    return True


class BenchPeer:
    """Such a peer in a ``with``: a process of its own, or on a stand-in of the bus, a thread.

    It is bound to the names that begin with ``prefix``. ``ksock`` is the one that sends to it, and does not
    block.
    """

    def __init__(self, ksock: Ksock, prefix: str, signals: EndSignals) -> None:
        self._ksock = ksock
        self._signals = signals
        self._is_over = threading.Event()
        self._prefix = prefix
        self._pid = 0
        self._thread: Optional[threading.Thread] = None
        self.asked = f"{prefix}.{_ASKED}"

    def __enter__(self) -> BenchPeer:
        reader, writer = os.pipe()
        self._reports = os.fdopen(reader, "rb")
        # A stand-in may be in this process, and its threads would not be in a fork.
        if self._ksock.is_real:
            self._fork(writer)
        else:
            self._thread = threading.Thread(target=self._run, args=(writer,))
            self._thread.start()
        try:
            self._report()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        exc_type: Optional[type[BaseException]],
        exc_value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._end()

    def counted(self) -> Optional[int]:
        """Ask how many messages have come since this was asked before, and wait; None if a signal came."""
        asked = Announcement(f"{self._prefix}.{END}", flags=Message.ALL_OR_WAIT)
        return self._report() if send_each(self._ksock, [asked], self._signals) else None

    def _report(self) -> int:
        line = self._reports.readline()
        if not line:
            raise Failure("the process that takes the messages has ended")
        return int(line)

    def _end(self) -> None:
        if self._thread:
            self._is_over.set()
            # It wakes the thread, unless that has no room and so is awake, or has failed.
            with contextlib.suppress(OSError):
                self._ksock.send_msg(Announcement(f"{self._prefix}.{_STOP}"))
            self._thread.join()
        else:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        self._reports.close()

    def _fork(self, writer: int) -> None:
        flush()
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid:
            os.close(writer)
            return
        try:
            # SIGINT of a terminal goes to both, and the parent ends this.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._reports.close()
            device = self._ksock.which
            self._ksock.close()
            self._serve(device, writer, parent)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)

    def _run(self, writer: int) -> None:
        self._serve(self._ksock.which, writer, os.getppid())

    def _serve(self, device: int, writer: int, parent: int) -> None:
        try:
            with os.fdopen(writer, "wb", buffering=0) as reports, open_ksock(device) as ksock:
                for name, is_replier in ((COUNTED, False), (END, False), (_STOP, False), (_ASKED, True)):
                    bind(ksock, f"{self._prefix}.{name}", is_replier)
                reports.write(b"0\n")
                count = 0
                while os.getppid() == parent and not self._is_over.is_set():
                    for message in ksock.receive_many(timeout=_ORPHAN):
                        last = message.name.rpartition(".")[2]
                        if last == COUNTED:
                            count += 1
                        elif last == _ASKED:
                            ksock.send_msg(reply_to(message, message.data))
                        elif last == END:
                            reports.write(b"%d\n" % count)
                            count = 0
                        else:
                            return
        except (OSError, Failure) as error:
            tell("kbus bench", f"where the messages are taken: {error}")
