"""Makes a Python on Linux resemble one on macOS or on Windows, by taking away what theirs lack.

What stays is Linux's: numpy and gRPC, files and their paths, the ends of lines. What each lacks is from typeshed, of
which the type checker knows all: `make types` reads what callers run for each of these systems.
"""

from __future__ import annotations

import mmap
import os
import select
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from importlib import import_module
from math import floor
from types import ModuleType
from typing import Any, NoReturn

THEIR_OWN = """
    asyncio concurrent.futures.thread ctypes http.client importlib.metadata multiprocessing runpy shutil ssl tempfile
    zipfile numpy.random grpc google.protobuf.json_format cyclopts docstring_parser PIL.Image PIL.PngImagePlugin
    rich.console rich.live rich.panel rich.progress rich.table rich_rst
    """
"""Packages with ways of their own on each system, which are imported while all is there."""

LACKING: Mapping[str, Mapping[ModuleType, str]] = {
    "darwin": {
        os: """
            EFD_* MFD_* O_DIRECT O_LARGEFILE O_NOATIME O_PATH O_RSYNC O_TMPFILE P_PIDFD RWF_* SCHED_[BI]* SPLICE_*
            XATTR_* copy_file_range eventfd* fdatasync getrandom getres*id memfd_create pidfd_open pipe2 posix_f*
            sched_*affinity sched_?etparam sched_*scheduler sched_rr* setres*id splice *xattr
            """,
        socket: """
            AF_ALG AF_NETLINK AF_PACKET AF_VSOCK CAN_* MSG_CMSG_CLOEXEC MSG_CONFIRM MSG_ERRQUEUE MSG_FASTOPEN MSG_MORE
            MSG_NOSIGNAL SOCK_CLOEXEC SOCK_NONBLOCK SO_DOMAIN SO_INCOMING_CPU SO_MARK SO_PASSCRED SO_PEERCRED
            SO_PRIORITY SO_PROTOCOL TCP_CONGESTION TCP_CORK TCP_DEFER_ACCEPT TCP_INFO TCP_KEEPIDLE TCP_LINGER2
            TCP_QUICKACK TCP_SYNCNT TCP_USER_TIMEOUT TCP_WINDOW_CLAMP
            """,
        select: "EPOLL* epoll POLLMSG POLLRDHUP",
        signal: "SIGCLD SIGPOLL SIGPWR SIGRT* SIGSTKFLT pidfd_send_signal sigtimedwait sigwaitinfo",
        mmap: """
            MADV_DO[DF]* MADV_DONT[DF]* MADV_H* MADV_NOHUGEPAGE MADV_*MERGEABLE MADV_REMOVE MAP_DENYWRITE MAP_EXECUTABLE
            MAP_POPULATE MAP_STACK
            """,
        time: "CLOCK_BOOTTIME CLOCK_TAI pthread_getcpuclockid",
    },
    "win32": {
        os: """
            CLD_* EFD_* EX_[!O]* EX_OS* F_*LOCK GRND_* MFD_* NGROUPS_MAX O_ACCMODE O_ASYNC O_CLOEXEC O_D* O_FSYNC
            O_LARGEFILE O_N[!O]* O_NO[!I]* O_PATH O_RSYNC O_SYNC O_TMPFILE POSIX_* PRIO_* P_ALL P_P* RTLD_* RWF_*
            SCHED_* SEEK_DATA SEEK_HOLE SPLICE_* ST_* W[A-Z]* XATTR_* chroot *chown confstr* copy_file_range ctermid
            *environb eventfd* fchdir fdatasync fork* *pathconf* fwalk get[eu]*id getenvb getg* getloadavg getpg*
            getpriority getr* getsid initgroups killpg lockf login_tty major makedev memfd_create minor mkfifo mknod
            nice openpty pidfd_open pipe2 posix_* pread* pwrite* readv register_at_fork sched_* sendfile set*id
            setgroups setpgrp setpriority spawn?p* *statvfs splice sync sysconf* tc?etpgrp ttyname uname wait wait[34i]*
            writev *xattr
            """,
        socket: """
            AF_ALG AF_NETLINK AF_PACKET AF_UNIX AF_VSOCK CAN_* CMSG_* MSG_CMSG_CLOEXEC MSG_CONFIRM MSG_DONTWAIT MSG_EOR
            MSG_FASTOPEN MSG_MORE MSG_NOSIGNAL SCM_* SOCK_CLOEXEC SOCK_NONBLOCK SO_BINDTODEVICE SO_DOMAIN
            SO_INCOMING_CPU SO_MARK SO_PASSCRED SO_PEERCRED SO_PRIORITY SO_PROTOCOL SO_REUSEPORT TCP_CONGESTION TCP_CORK
            TCP_DEFER_ACCEPT TCP_INFO TCP_LINGER2 TCP_NOTSENT_LOWAT TCP_SYNCNT TCP_USER_TIMEOUT TCP_WINDOW_CLAMP
            recv_fds send_fds sethostname
            """,
        select: "EPOLL* epoll PIPE_BUF POLL* poll",
        signal: """
            ITIMER_* ItimerError SIGALRM SIGBUS SIGC[HLO]* SIGHUP SIGIO* SIGKILL SIGP* SIGQUIT SIGRT* SIGST* SIGSYS
            SIGT[RST]* SIGU* SIGVTALRM SIGWINCH SIGX* SIG_BLOCK SIG_SETMASK SIG_UNBLOCK Sigmasks alarm *itimer pause
            pidfd_* pthread_* siginterrupt sigpending sigtimedwait sigwait* struct_siginfo
            """,
        mmap: "MADV_* MAP_* PROT_*",
        time: "CLOCK_* clock_* pthread_getcpuclockid tzset",
    },
}
"""What modules lack, as patterns of names, without those of hardware and protocols that are far from here."""

NO_MODULES_OF_WINDOWS = ("fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty")
NO_METHODS_OF_ITS_SOCKETS = ("recvmsg", "recvmsg_into", "sendmsg", "sendmsg_afalg")

TICK_S = 1 / 64
"""How often `time.monotonic` goes on, on Windows."""


def become(system: str) -> None:
    """Make this process's Python resemble that of a system, which is named as `sys.platform` names it."""
    for name in THEIR_OWN.split():
        import_module(name)
    if system == "win32":
        _do_as_windows_does()
    for module, patterns in LACKING[system].items():
        for name in [name for name in vars(module) if any(fnmatchcase(name, each) for each in patterns.split())]:
            delattr(module, name)
    sys.platform = system


def _do_as_windows_does() -> None:
    """Replace what Windows has and does differently, and take away what is in no module's dictionary."""
    _keep_signals_from_waits()
    monotonic = time.monotonic
    replaced: Any = time, select, os, subprocess
    replaced[0].monotonic = lambda: floor(monotonic() / TICK_S) * TICK_S
    replaced[1].select = _select_of_sockets
    replaced[2].execv = _start_and_end
    replaced[3]._USE_POSIX_SPAWN = False  # by it Linux starts processes with what is taken away
    for name in NO_METHODS_OF_ITS_SOCKETS:
        setattr(socket.socket, name, _Lacking())
    sys.modules.update(dict.fromkeys(NO_MODULES_OF_WINDOWS))  # pyright: ignore[reportCallIssue, reportArgumentType]


class _Lacking:
    """An attribute that neither a class nor its objects have."""

    def __get__(self, *_: object) -> NoReturn:
        raise AttributeError


def _keep_signals_from_waits() -> None:
    """Have another thread take Ctrl-C, so that no wait of the main thread for a lock is interrupted."""
    mask, block, unblock = signal.pthread_sigmask, signal.SIG_BLOCK, signal.SIG_UNBLOCK

    def take_signals() -> None:
        mask(unblock, [signal.SIGINT])
        threading.Event().wait()

    threading.Thread(target=take_signals, daemon=True).start()
    mask(block, [signal.SIGINT])


def _select_of_sockets(reading: Sequence[Any], *others: Any, _select: Any = select.select) -> Any:
    """Wait for sockets, and for nothing else."""
    for each in reading:
        if not stat.S_ISSOCK(os.fstat(each if isinstance(each, int) else each.fileno()).st_mode):
            raise OSError(10038, "An operation was attempted on something that is not a socket")
    return _select(reading, *others)


def _start_and_end(_path: str, words: Sequence[str]) -> NoReturn:
    """Start a program with its arguments in one line, without quotes, and end before it does."""
    subprocess.Popen(" ".join(words).split())
    os._exit(0)
