# SPDX-License-Identifier: MIT
"""The settings of a KSock and of its device, and what can be asked about the other KSocks there."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from . import _abi as abi
from . import _ioctls as ioctls
from ._device import DeviceFile


class PeerInfo(NamedTuple):
    """The process and user that opened a KSock, in the caller's namespaces. Source: semantics, rule 36."""

    ksock_id: int
    pid: int
    uid: int
    gid: int


NEEDS_RW = "that needs a Ksock that was opened with mode 'rw'"
_FOR_ADMINISTRATORS = "that affects the whole device: it is for root, or the user who owns the device node"


@contextmanager
def _because(**reasons: str) -> Iterator[None]:
    """Give the reason for an errno, by its name."""
    try:
        yield
    except OSError as error:
        reason = reasons.get(errno.errorcode.get(error.errno or 0, ""))
        if reason is None:
            raise
        raise OSError(error.errno, reason) from None


class DeviceSettings:
    """The part of Ksock that is neither about binding nor about messages."""

    _file: DeviceFile

    # This KSock.

    def max_messages(self) -> int:
        """Return how many messages the queue of this KSock can hold."""
        return self.set_max_messages(0)

    def set_max_messages(self, count: int) -> int:
        """Let the queue hold ``count`` messages; return what is in force, within the limits.

        0 only asks. What is queued stays. Source: semantics, rule 20.
        """
        return ioctls.u32(self._file, abi.IOC_MAXMSGS, count)

    def want_messages_once(self, only_once: bool = False, just_ask: bool = False) -> bool:
        """Set whether a message is queued once even if several bindings match; return the setting before.

        ``just_ask`` changes nothing.
        """
        return ioctls.switch(self._file, abi.IOC_MSGONLYONCE, only_once, just_ask)

    def report_lost_messages(self, report: bool = True, just_ask: bool = False) -> bool:
        """Set whether ``$.KBUS.MessagesLost`` reports missed messages; return the setting before.

        ``just_ask`` changes nothing. Source: semantics, rule 23.
        """
        return ioctls.switch(self._file, abi.IOC_REPORTLOST, report, just_ask)

    # The device, and the others on it. Settings of the whole device are for its administrator: a process
    # with CAP_SYS_ADMIN, or a Ksock that was opened by the user who owns the device node.

    def peer(self, ksock_id: int) -> PeerInfo:
        """Return the process and the user that opened the KSock with this id, such as ``message.from_``.

        Raises ProcessLookupError (ESRCH) if there is no such KSock now.
        """
        with _because(ESRCH=f"there is no KSock {ksock_id} now"):
            return PeerInfo(*ioctls.peer_info(self._file, ksock_id))

    def kernel_module_verbose(self, verbose: bool = True, just_ask: bool = False) -> bool:
        """Set whether the kernel logs what happens on this device; return the setting before.

        ``just_ask`` changes nothing. Setting needs mode ``rw``, and is for the administrator:
        PermissionError (EPERM).
        """
        with _because(EPERM=_FOR_ADMINISTRATORS, EBADF=NEEDS_RW):
            return ioctls.switch(self._file, abi.IOC_VERBOSE, verbose, just_ask)

    def report_replier_binds(self, report_events: bool = True, just_ask: bool = False) -> bool:
        """Set whether ``$.KBUS.ReplierBindEvent`` reports repliers of this device; return the setting before.

        ``just_ask`` changes nothing. Setting needs mode ``rw``, and is for the administrator:
        PermissionError (EPERM). Source: semantics, rule 32.
        """
        with _because(EPERM=_FOR_ADMINISTRATORS, EBADF=NEEDS_RW):
            return ioctls.switch(self._file, abi.IOC_REPORTREPLIERBINDS, report_events, just_ask)

    def max_message_size(self) -> int:
        """Return the length in bytes of the longest message that can be written to this device."""
        return self.set_max_message_size(0)

    def set_max_message_size(self, count: int) -> int:
        """Let messages on this device be ``count`` bytes long, all included; return ``count``.

        0 only asks what is in force, 1 for the highest ``count``. Setting needs mode ``rw``, and is for the
        administrator: PermissionError (EPERM). Raises OSError with EINVAL under 100 or over the highest.
        Source: semantics, rule 34.
        """
        with _because(EPERM=_FOR_ADMINISTRATORS, EBADF=NEEDS_RW):
            try:
                return ioctls.u32(self._file, abi.IOC_MAXMSGSIZE, count)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                raise OSError(
                    error.errno,
                    f"the longest message of a device can have {abi.MIN_MAX_MSG_SIZE} to"
                    f" {self.set_max_message_size(1)} bytes, not {count} (module parameter max_message_size)",
                ) from None

    def new_device(self) -> int:
        """Make one more KBUS device, and return its number. Raises PermissionError (EPERM) unless
        the caller has CAP_SYS_ADMIN, OSError with ENOSPC if there are 256.
        """
        with _because(
            EPERM="a device is made by root, or with CAP_SYS_ADMIN",
            ENOSPC="there are 256 devices already, the most there can be",
        ):
            return ioctls.u32(self._file, abi.IOC_NEWDEVICE)
