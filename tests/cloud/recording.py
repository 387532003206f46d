"""Records commands at a terminal of 80 columns as an asciicast file, from which the manual draws a picture.

``doc/ext/sessions.py`` reads the file. The format is that of asciinema, version 2: a line of JSON with the size of the
terminal, then a line ``[seconds, "o", text]`` for each output.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pathlib
import pty
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence

from tests.cloud.processes import RUNNER

COLUMNS, ROWS = 80, 50
QUESTION = "[y/N] "  #: the end of a question, which is answered with yes


class Recording:
    """The outputs of some commands, one after the other."""

    def __init__(self) -> None:
        self.events: list[tuple[float, str]] = []
        self.seconds = 0.0  #: of the commands until now, without the time between them

    def run(self, shown: str, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run a command, record what it prints, and return its exit code.

        :param shown: the command as the reader sees it
        """
        began = time.monotonic() - self.seconds
        self.events.append((self.seconds, f"$ {shown}\r\n"))
        master, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        # A dumb terminal gets a new line for each change, and no line that is drawn again.
        child = subprocess.Popen(
            [sys.executable, str(RUNNER), "--parent", str(os.getpid()), "exec", "--", *command],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env={**environment, "TERM": "dumb"},
            start_new_session=True,
        )
        os.close(terminal)
        with contextlib.suppress(OSError):  # the end of the command
            while output := os.read(master, 65536):
                text = output.decode(errors="replace")
                self.events.append((time.monotonic() - began, text))
                if text.endswith(QUESTION):
                    os.write(master, b"y\n")
        os.close(master)
        self.seconds = time.monotonic() - began
        return child.wait()

    def write(self, path: pathlib.Path, title: str) -> None:
        """Write the asciicast file."""
        header = {"version": 2, "width": COLUMNS, "height": ROWS, "title": title}
        lines = [json.dumps(header), *(json.dumps([round(at, 1), "o", text]) for at, text in self.events)]
        path.write_text("\n".join(lines) + "\n")
