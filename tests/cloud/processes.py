"""Child processes that never outlive this one."""

from __future__ import annotations

import errno
import os
import pathlib
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.cloud.errors import CloudError

HOST = "127.0.0.1"
RUNNER = pathlib.Path(__file__).with_name("serve.py")
STOP_GRACE = 5.0


class Spawner:
    """Calls functions one after the other in a thread that lives as long as this process.

    The kernel kills a child when the thread that forked it ends, and not when the process of that thread ends: a child
    of a pool thread would be killed at the end of that thread. Because the calls are sequential, `Children` needs no
    lock, which a Ctrl-C could leave locked.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._pid = 0

    def call(self, function: Callable[[], Any]) -> Any:
        """Call `function()` in the long-lived thread."""
        answer: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

        def job() -> None:
            try:
                answer.put((function(), None))
            except BaseException as error:  # the caller gets it
                answer.put((None, error))

        with self._lock:
            if self._pid != os.getpid():  # first use, or first use after a fork
                self._jobs = queue.SimpleQueue()
                threading.Thread(target=self._work, args=(self._jobs,), name="cloud-spawner", daemon=True).start()
                self._pid = os.getpid()
        self._jobs.put(job)
        result, error = answer.get()
        if error is not None:
            raise error
        return result

    @staticmethod
    def _work(jobs: queue.SimpleQueue) -> None:
        while True:
            jobs.get()()


SPAWNER = Spawner()


@dataclass(frozen=True)
class Child:
    """One process, which is also the leader of its own session and process group."""

    name: str
    popen: subprocess.Popen
    log: pathlib.Path

    def signal(self, signum: int) -> None:
        """Send `signum` to all processes of the group."""
        try:
            os.killpg(self.popen.pid, signum)
        except (ProcessLookupError, PermissionError):
            pass  # gone already; a group of zombies only answers with EPERM on some kernels

    def ended(self) -> str | None:
        """Return its exit status, or None while it runs."""
        code = self.popen.poll()
        if code is None:
            return None
        return f"exit code {code}" if code >= 0 else f"killed by signal {-code}"


def _inherited() -> dict[str, str]:
    """Returns the environment of this process without PYTHONDONTWRITEBYTECODE.

    With that variable each of forty processes would compile the modules that it imports, at each start.
    """
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class Children:
    """The processes of one cloud: started here, watched here, stopped here."""

    def __init__(self, log_directory: pathlib.Path) -> None:
        self.log_directory = log_directory
        self._children: list[Child] = []
        self._stopping = False

    def start(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        python: str,
        environment: Mapping[str, str] | None = None,
        cwd: pathlib.Path | None = None,
        log: pathlib.Path | None = None,
    ) -> Child:
        """Start `serve.py <arguments>`; its output goes to `<log directory>/<name>.log`."""
        log = log or self.log_directory / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [python, "-u", str(RUNNER), "--parent", str(os.getpid()), *arguments]

        def start() -> Child:
            if self._stopping:
                raise CloudError(f"{name} was not started: the cloud is being stopped")
            with open(log, "ab") as output:
                popen = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**_inherited(), **(environment or {})},
                    cwd=cwd,
                    start_new_session=True,
                )
            child = Child(name, popen, log)
            self._children.append(child)
            return child

        return SPAWNER.call(start)

    def run(self, name: str, command: Sequence[str], *, guarded: bool = False, **options: object) -> None:
        """Run `command` to its end; anything but exit code 0 is a CloudError."""
        python = str(options.pop("python", sys.executable))
        child = self.start(name, ["guard" if guarded else "exec", "--", *command], python=python, **options)
        child.popen.wait()
        if child in self._children:  # not if it was stopped
            self._children.remove(child)
        if child.popen.returncode != 0:
            raise CloudError(f"{name} failed ({child.ended()}): {last_line(child.log)}; see {child.log}")

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called, which explains later failures."""
        return self._stopping

    def running(self) -> list[Child]:
        """Those that have not ended."""
        return [child for child in list(self._children) if child.popen.poll() is None]

    def check(self) -> None:
        """Raise if one of them has ended."""
        for child in list(self._children):
            if how := child.ended():
                raise CloudError(f"{child.name} ended ({how}): {last_line(child.log)}; see {child.log}")

    def end(self, name: str) -> bool:
        """Stop the processes with that name and remove them; return whether there were any."""
        found = [child for child in self.running() if child.name == name]
        for child in found:
            child.signal(signal.SIGTERM)
            try:
                child.popen.wait(STOP_GRACE)
            except subprocess.TimeoutExpired:
                pass
            child.signal(signal.SIGKILL)
            child.popen.wait()
            SPAWNER.call(lambda child=child: self._children.remove(child))
        return bool(found)

    def stop(self) -> None:
        """Stop all of them, and refuse new ones until `reset`. Safe to call at any moment and more than once."""
        self._stopping = True
        deadline = time.monotonic() + STOP_GRACE
        try:
            SPAWNER.call(lambda: None)  # what was being started is started and known now
            for child in list(self._children):
                child.signal(signal.SIGTERM)
            for child in list(self._children):
                try:
                    child.popen.wait(max(0.0, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    pass
        finally:  # also when a second Ctrl-C cuts the waiting short
            for child in list(self._children):
                child.signal(signal.SIGKILL)
                child.popen.wait()
        self._children.clear()

    def reset(self) -> None:
        """Allow starting again."""
        self._stopping = False


# What oslo.log puts before the text of a line.
LOG_PREFIX = re.compile(r"^\d{4}-\d\d-\d\d [\d:.]+ \d+ [A-Z]+ [\w.]+( \[[^]]*\])?\s*")


def last_line(log: pathlib.Path) -> str:
    """Return the last meaningful line of a log, shortened."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return "no log"
    told = (LOG_PREFIX.sub("", line).strip() for line in reversed(lines) if not line.startswith("WARNING"))
    return next((line[:200] for line in told if line), "nothing was logged")


def port_is_free(port: int) -> bool:
    """Return whether the port of the loopback address is free."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True
