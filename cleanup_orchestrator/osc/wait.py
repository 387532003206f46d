"""Waits for deletions and prints their progress to the error output.

On a terminal each deletion has one line that is redrawn. Otherwise each change prints a line.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TextIO

from openstack import exceptions as sdk_exceptions

from cleanup_orchestrator.core.words import ENDED, Status
from cleanup_orchestrator.osc import common, endings, overview
from cleanup_orchestrator.osc.screen import Screen, command
from cleanup_orchestrator.sdk import ApiError, Proxy, errors, one_line, success
from cleanup_orchestrator.sdk.proxy import GIVE_UP

#: Seconds between two polls: POLL_FAST after a change, growing to POLL_SLOW without one.
POLL_FAST = 1.0
POLL_SLOW = 5.0
#: Seconds between two redraws of the terminal, which shows the elapsed time.
REDRAW = 1.0
#: With more deletions on a terminal, none has a line about what moves.
DETAILED = 5
#: Exit code of a wait that ended because a person has to clear something first.
BLOCKED = 3
#: Exit code of a wait for dry runs that ended, of which one could not list everything.
INCOMPLETE = 4
#: Seconds after a retry in which a deletion may still show what blocked it before: the workers try again meanwhile.
RETRY_PATIENCE = 15.0
#: The causes of ``attention`` that a retry helps, once they are cleared.
_RETRIED = frozenset({"blocked", "failed", "leftovers"})
#: Conditions of a deletion that does not go on, and that has blockers.
STANDSTILL = ("blocked", "stalled")
#: The purpose of a round that the status implies.
USUAL_PURPOSE: Mapping[str, str] = {
    Status.INVENTORY: "inventory",
    Status.DELETING: "delete",
    Status.VERIFYING: "inventory",
}


def ended(deletion: Mapping[str, Any]) -> bool:
    """Return whether the status of the deletion is final."""
    try:
        return Status(str(deletion.get("status"))) in ENDED
    except ValueError:
        # A status of a newer server.
        return bool(deletion.get("finished_at"))


def deleted(deletion: Mapping[str, Any]) -> bool:
    """Return whether a deletion ended as requested."""
    return deletion.get("status") == success.status(deletion)


def cancelled(deletion: Mapping[str, Any]) -> bool:
    """Return whether a cancel ended as requested."""
    return deletion.get("status") == Status.CANCELLED


def duration(seconds: float) -> str:
    """Return ``1h02m03s``, ``2m03s`` or ``3s``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02}m{rest:02}s"
    return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


@dataclasses.dataclass(eq=False)
class WatchedDeletion:
    """A deletion to wait for, in its last known state."""

    deletion: dict[str, Any]
    done: bool = False
    error: str = ""  #: why it is no longer polled, if it has not ended
    trouble: str = ""  #: why the last poll failed
    trouble_since: float = 0.0
    told: Any = None  #: the state in the last line
    told_blockers: Any = None
    above: WatchedDeletion | None = None  #: the one that waits for it, if it is only shown because of that one
    listed: Mapping[str, Any] | None = None  #: the row of the latest list of children
    blocked: bool = False  #: whether the wait ended because it is blocked
    before: int = 0  #: number of resources that were found before the first delete; 0: not known

    @property
    def label(self) -> str:
        """The name of the project, after the names of the projects above."""
        name = common.label(self.deletion)
        return f"{self.above.label}/{name}" if self.above else name

    def is_below(self, other: WatchedDeletion) -> bool:
        """Whether another deletion waits for this one, also indirectly."""
        return self.above is not None and (self.above is other or self.above.is_below(other))


@dataclasses.dataclass(frozen=True)
class WaitOptions:
    """What a wait is for, and what ends it."""

    wanted: Callable[[Mapping[str, Any]], bool] = deleted  #: whether a deletion ended as requested
    timeout: float | None = None  #: maximum seconds to wait
    quiet: bool = False  #: print only problems
    stop_when_blocked: bool = False  #: stop when only a person can help a deletion to go on
    patience: float = 0.0  #: seconds from the beginning in which "blocked" may be an earlier state


class Waiter:
    """Waits until all deletions have ended, and prints their progress."""

    def __init__(self, client: Proxy, stream: TextIO, options: WaitOptions = WaitOptions()) -> None:
        """Wait for deletions."""
        self._client = client
        self._screen = Screen(stream)
        self._options = options
        self._start = time.monotonic()
        self._watched: list[WatchedDeletion] = []

    def wait(self, deletions: Iterable[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
        """Return the deletions in their last known state, and the exit code.

        Ctrl-C ends the wait, but not the deletions.
        """
        self._watched = [WatchedDeletion(deletion) for deletion in deletions]
        try:
            code = self._wait()
        except KeyboardInterrupt:
            self._screen.say(self._stopped("Stopped waiting"))
            code = 130
        finally:
            self._screen.close()
        return [w.deletion for w in self._watched if not w.above], code

    def _wait(self) -> int:
        pause = POLL_FAST
        if not self._options.quiet:
            for w in self._watched:
                self._screen.say([f"{common.label(w.deletion)}: {self._heading(w.deletion)}"])
        while True:
            moved = False
            for w in self._pending():
                moved |= self._poll(w)
                self._draw()
            if not self._pending():
                break
            pause = POLL_FAST if moved else min(pause * 1.5, POLL_SLOW)
            if not self._sleep(pause):
                self._screen.say(self._timed_out())
                return 1
        if any(w.blocked for w in self._watched):
            return BLOCKED
        asked = [w for w in self._watched if not w.above]
        if not all(self._options.wanted(w.deletion) and not w.error for w in asked):
            return 1
        return INCOMPLETE if any(endings.is_incomplete(w.deletion) for w in asked) else 0

    def _pending(self) -> list[WatchedDeletion]:
        """Return the deletions to wait for."""
        return [w for w in self._watched if not w.done and not w.above]

    def _shown(self) -> list[WatchedDeletion]:
        """Return the deletions to wait for, each followed by those that it waits for."""
        shown = []
        for w in self._pending():
            shown.append(w)
            shown += [each for each in self._watched if not each.done and each.is_below(w)]
        return shown

    def _elapsed(self) -> float:
        return time.monotonic() - self._start

    def _sleep(self, seconds: float) -> bool:
        """Sleep and redraw the terminal; return False if the timeout is over."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self._options.timeout is not None:
                left = min(left, self._options.timeout - self._elapsed())
                if left <= 0:
                    return False
            time.sleep(min(left, REDRAW) if self._screen.live else left)
            self._draw()
        return True

    def _poll(self, w: WatchedDeletion) -> bool:
        """Poll one deletion; return whether it changed."""
        try:
            w.deletion = self._client.get_deletion(w.deletion["id"])
            below = self._below(w) if w.deletion.get("include_subtree") and not ended(w.deletion) else []
        except sdk_exceptions.SDKException as exc:
            self._failed_poll(w, exc)
            return False
        if w.trouble:
            w.trouble = ""
            self._tell(f"{w.label}: the API answers again")
        moved = False
        for child in below:
            moved |= self._tell_change(child)
        moved |= self._tell_change(w)
        stops = self._options.stop_when_blocked and self._elapsed() >= self._options.patience
        if stops and not w.done and any(map(_blocked, (w, *below))):
            w.done = w.blocked = True
            self._screen.say(_stopped_because_blocked(w, below))
        return moved

    def _below(self, w: WatchedDeletion) -> list[WatchedDeletion]:
        """Read the deletions below one; return those that have not ended, or ended since the last poll.

        One request lists all children of a deletion. A child that does not go on is read in detail at each change.

        :raises openstack.exceptions.SDKException: the API did not answer
        """
        known = {each.deletion["id"]: each for each in self._watched}
        below = []
        try:
            rows = list(self._client.deletions(parent_deletion_id=w.deletion["id"]))
        except ApiError as exc:
            if exc.temporary:
                raise
            return []  # the user may not list deletions, and can still wait for this one
        for row in rows:
            child = known.get(row["id"])
            if child is None:
                child = WatchedDeletion(row, above=w)
                self._watched.append(child)
            if not child.above:
                continue  # it is waited for itself
            child.done = child.done and ended(row)  # a user may have retried it
            if child.done:
                continue
            if row != child.listed:
                child.deletion, child.listed = self._detail(row), row
            if row.get("include_subtree") and not ended(row):
                below += self._below(child)
            below.append(child)
        return below

    def _detail(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a child with its blockers if it does not go on, or else as it is listed."""
        stands = any(common.is_true(row, each) for each in STANDSTILL)
        try:
            return self._client.get_deletion(row["id"]) if stands else row
        except ApiError as exc:
            if exc.temporary:
                raise
            return row  # the user may list it, and may not read it; or it was removed meanwhile

    def _tell_change(self, w: WatchedDeletion) -> bool:
        """Print what has changed in a deletion; return whether anything has."""
        self._tell_blockers(w)
        w.before = w.before or _found_before_deletes(w.deletion)
        told = self._state(w.deletion)
        moved: bool = told != w.told
        w.told = told
        if ended(w.deletion):
            w.done = True
            if w.above:
                self._tell(f"{w.label}: {one_line(w.deletion.get('status'))}")
            else:
                self._screen.say(self._ending(w))
        elif moved and not self._screen.live:
            self._tell(self._line(w))
        return moved

    def _failed_poll(self, w: WatchedDeletion, exc: sdk_exceptions.SDKException) -> None:
        name, text = common.label(w.deletion), common.explain(exc, common.FIND_DELETION)
        temporary = errors.temporary(exc)
        now = time.monotonic()
        if temporary and not w.trouble:
            self._screen.say([f"{name}: {text}; trying again"])
            w.trouble_since = now
        w.trouble = text
        if not temporary or now - w.trouble_since > GIVE_UP:
            w.done, w.error = True, text
            follow = command(common.FOLLOW, id=w.deletion["id"])
            self._screen.say(
                [f"{name}: waiting ended: {text}", f"    The deletion continues. Follow it with: {follow}"]
            )

    def _tell(self, line: str) -> None:
        if not self._options.quiet:
            self._screen.say([line])

    def _tell_blockers(self, w: WatchedDeletion) -> None:
        """Print the blockers of a deletion that is blocked or stalled, whenever they change."""
        words = _standstill(w.deletion)
        told = (words, *common.blocker_lines(w.deletion.get("blockers") or ())) if words else None
        if told == w.told_blockers:
            return
        before, w.told_blockers = w.told_blockers, told
        if told:
            lines = told[1:] or (_why(w.deletion),)
            self._screen.say([f"{w.label}: {words}", *(f"  {line}" for line in lines)])
        elif not ended(w.deletion):
            self._tell(f"{w.label}: no longer {before[0]}")

    def _draw(self) -> None:
        if not self._options.quiet:
            shown = self._shown()
            few = len(shown) <= DETAILED
            self._screen.draw([line for w in shown for line in (self._lines(w) if few else [self._line(w)])])

    def _heading(self, deletion: Mapping[str, Any]) -> str:
        dry = "dry run, " if deletion.get("dry_run") else ""
        return f"deletion {one_line(deletion['id'])} ({dry}{one_line(deletion.get('mode'))} mode)"

    def _state(self, deletion: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the content of a line, without the elapsed time.

        If the content changes, a new line is printed.
        """
        progress = deletion.get("progress") or {}
        status, purpose = one_line(deletion.get("status")), one_line(progress.get("purpose") or "")
        words = status if not purpose or USUAL_PURPOSE.get(status) == purpose else f"{status} ({purpose})"
        settling = status == Status.VERIFYING and not common.is_true(deletion, "settled")
        settle = _clock(deletion.get("settle_until")) if settling else ""
        # Nothing is listed yet. Zeros would mean that there are no resources.
        numbers = "" if status in (Status.ACCEPTED, Status.DRAINING) else common.progress_text(progress)
        if waits := common.condition(deletion, "waiting"):
            what = "its turn" if waits.get("reason") == "queue" else "the projects below"
            words = f"{words}, waiting for {what}"
        if hold := common.condition(deletion, "on_hold"):
            words = f"{words}, on hold ({one_line(hold.get('reason') or '')})"
        if common.is_true(deletion, "approval"):
            words = f"{words}, waiting for an approval"
        elif status == Status.RECOVERABLE and deletion.get("point_of_no_return_at"):
            words = f"{words} until {one_line(deletion['point_of_no_return_at'])}"
        return words, numbers, settle, _standstill(deletion), len(deletion.get("blockers") or ())

    def _lines(self, w: WatchedDeletion) -> list[str]:
        """Return the line of a deletion, and one about what moves and what waits."""
        moving = overview.moving(w.deletion)
        return [self._line(w), *([f"    {moving}"] if moving else [])]

    def _line(self, w: WatchedDeletion) -> str:
        words, numbers, settle, standstill, blockers = self._state(w.deletion)
        parts = [f"{w.label}: {words}"]
        if numbers:
            parts.append(numbers)
        if settle:
            parts.append(f"settles until {settle} UTC")
        if standstill:
            count = f", {blockers} blocker{'' if blockers == 1 else 's'}" if blockers else ""
            parts.append(f"{standstill}{count}")
        if w.trouble:
            parts.append("no answer from the API")
        return f"{'; '.join(parts)}; {duration(self._elapsed())}"

    def _ending(self, w: WatchedDeletion) -> list[str]:
        """Return the lines about the end of a deletion."""
        good = self._options.wanted(w.deletion)
        if good and self._options.quiet:
            return []
        return endings.lines(w.deletion, good, duration(self._elapsed()), w.before, self._screen.room)

    def _timed_out(self) -> list[str]:
        lines = []
        for w in self._pending():
            lines += self._lines(w)
            lines += [f"  {line}" for line in common.blocker_lines(w.deletion.get("blockers") or ())]
        return lines + self._stopped(f"Timed out after {duration(self._elapsed())} of waiting")

    def _stopped(self, why: str) -> list[str]:
        pending = self._pending()
        if not pending:
            return []
        what = "the deletion continues" if len(pending) == 1 else f"{len(pending)} deletions continue"
        lines = [f"{why}; {what}."]
        for w in pending:
            known = {"id": one_line(w.deletion["id"])}
            lines.append(f"{common.label(w.deletion)}:")
            lines.append(f"    follow it with: {command(common.FOLLOW, **known)}")
            if w.deletion.get("cancellable", True):
                lines.append(f"    cancel it with: {command(common.CANCEL, **known)}")
        return lines


def _found_before_deletes(deletion: Mapping[str, Any]) -> int:
    progress = deletion.get("progress") or {}
    begun = deletion.get("status") == Status.DELETING and not progress.get("deleted")
    return int(progress.get("found") or 0) if begun else 0


def _standstill(deletion: Mapping[str, Any]) -> str:
    """Return which conditions say that a live deletion does not go on."""
    if ended(deletion):
        return ""
    return ", ".join(each for each in STANDSTILL if common.is_true(deletion, each))


def _why(deletion: Mapping[str, Any]) -> str:
    """Return the messages of the conditions in ``STANDSTILL``, for a deletion without blockers."""
    texts = (common.condition(deletion, each).get("message") for each in STANDSTILL)
    return "; ".join(one_line(text) for text in texts if text) or "no blocker was named"


def _blocked(w: WatchedDeletion) -> bool:
    return not ended(w.deletion) and common.is_true(w.deletion, "blocked")


def _stopped_because_blocked(w: WatchedDeletion, below: Iterable[WatchedDeletion]) -> list[str]:
    """Return the lines about a wait that ended, with the next commands."""
    known, retries = {"id": one_line(w.deletion["id"])}, _to_retry((w, *below))
    what = "it" if _blocked(w) and not _only_below(w) else "a deletion below it"
    return [
        f"{w.label}: stopped waiting because {what} is blocked; the deletion continues when the blockers are cleared.",
        *(f"    Retry {name} at once with: {command(common.RETRY, id=id_)}" for id_, name in retries.items()),
        f"    Follow it with: {command(common.FOLLOW, **known)}",
        f"    Cancel it with: {command(common.CANCEL, **known)}",
    ]


def _only_below(w: WatchedDeletion) -> bool:
    """Return whether a blocked deletion has no blockers, and a deletion below it needs a person."""
    return not w.deletion.get("blockers") and any(c.get("attention") for c in w.deletion.get("children") or ())


def _to_retry(watched: Sequence[WatchedDeletion]) -> dict[str, str]:
    """Return how a text names each deletion that a retry helps, by its id.

    A retry has no effect on the deletions below: a deletion that is blocked only because of these is left out.
    """
    names, known = {}, {each.deletion["id"] for each in watched}
    for each in filter(_blocked, watched):
        if not _only_below(each):
            names[one_line(each.deletion["id"])] = each.label if each.above else "it"
        for child in each.deletion.get("children") or ():
            # Those that have ended, or cannot be listed, are not watched.
            if child["deletion_id"] not in known and _RETRIED.intersection(child.get("attention") or ()):
                names[one_line(child["deletion_id"])] = f"{each.label}/{common.label(child)}"
    return names


def _clock(time_text: Any) -> str:
    """Return HH:MM:SS of an ISO time, without using the local clock."""
    text = one_line(time_text or "")
    return text[11:19] if len(text) >= 19 and text[10:11] == "T" else ""
