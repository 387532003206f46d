"""Waits for an orphan scan and prints its progress to the error output."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from openstack import exceptions as sdk_exceptions

from cleanup_orchestrator.core.words import SCANNING, ScanStatus
from cleanup_orchestrator.osc import common, wait
from cleanup_orchestrator.osc.screen import Screen, command
from cleanup_orchestrator.sdk import Proxy, errors, one_line
from cleanup_orchestrator.sdk.proxy import GIVE_UP

_SHOW = "openstack project orphan scan show {id}"
_CANCEL = "openstack project orphan scan cancel {id}"


def until_ended(
    client: Proxy, scan: Mapping[str, Any], screen: Screen, timeout: float | None, quiet: bool
) -> tuple[Mapping[str, Any], int]:
    """Return a scan in its last known state, and the exit code.

    Ctrl-C and the time-out end the wait, but not the scan.

    :param timeout: maximum seconds to wait; ``None``: no limit
    :param quiet: print only problems
    """
    start = time.monotonic()
    pause, told, answered = wait.POLL_FAST, "", start
    id_ = one_line(scan["id"])
    try:
        while True:
            if (line := _state(scan)) != told:
                pause, told = wait.POLL_FAST, line
                if not quiet:
                    screen.say([f"orphan scan {id_}: {line}; {wait.duration(time.monotonic() - start)}"])
            if scan.get("status") not in SCANNING:
                return scan, _code(scan)
            if timeout is not None and time.monotonic() - start >= timeout:
                screen.say([f"Timed out after {wait.duration(timeout)} of waiting; the scan continues.", *_next(id_)])
                return scan, 1
            time.sleep(pause if timeout is None else min(pause, max(0.0, start + timeout - time.monotonic())))
            pause = min(pause * 1.5, wait.POLL_SLOW)
            try:
                scan, answered = client.get_orphan_scan(scan["id"]), time.monotonic()
            except sdk_exceptions.SDKException as exc:
                if not errors.temporary(exc) or time.monotonic() - answered > GIVE_UP:
                    screen.say([f"Waiting ended: {common.explain(exc)}", *_next(id_)])
                    return scan, 1
    except KeyboardInterrupt:
        screen.say(["Stopped waiting; the scan continues.", *_next(id_)])
        return scan, 130


def _state(scan: Mapping[str, Any]) -> str:
    """Return what has changed when a new line is printed."""
    counts = scan.get("counts") or {}
    told = [one_line(scan.get("status"))]
    if scan.get("status") in SCANNING:
        told += [f"read {scan['read']} of 2"] if scan.get("read") else []
        told += [f"the second read begins at {one_line(scan['reread_at'])}"] if scan.get("reread_at") else []
        told += [f"candidates {counts['candidates']}"] if counts.get("candidates") else []
    elif scan.get("message"):
        told.append(one_line(scan["message"]))
    return "; ".join(told)


def _code(scan: Mapping[str, Any]) -> int:
    status = scan.get("status")
    return 0 if status == ScanStatus.COMPLETED else wait.INCOMPLETE if status == ScanStatus.INCOMPLETE else 1


def _next(id_: str) -> list[str]:
    return [f"    See it with: {command(_SHOW, id=id_)}", f"    Cancel it with: {command(_CANCEL, id=id_)}"]
