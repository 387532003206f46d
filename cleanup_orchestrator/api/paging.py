"""Pages of listings: what part a request wants, and the link to the next one."""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import webob

from cleanup_orchestrator.api.context import ApiContext
from cleanup_orchestrator.api.errors import ApiError
from cleanup_orchestrator.store import Page

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Paging:
    """What part of a listing a valid query wants."""

    query: Mapping[str, list[str]]
    limit: int  #: items on a page

    @classmethod
    def of(cls, query: Mapping[str, list[str]], context: ApiContext) -> Paging:
        """Read it; a larger limit than is allowed is cut to it."""
        wanted = int(query["limit"][0]) if "limit" in query else context.default_limit
        return cls(query, min(wanted, context.max_limit))

    @property
    def more(self) -> int:
        """How many items to ask the store for: one above the limit tells that there is a next page."""
        return self.limit + 1

    @property
    def marker(self) -> str | None:
        """The item that the page before ended with."""
        return self.query.get("marker", [None])[0]

    @property
    def row(self) -> int | None:
        """The marker, where items are numbered."""
        return None if self.marker is None else int(self.marker)

    @property
    def page(self) -> Page:
        """The page of what has an id and a time, the latest first unless the query says otherwise.

        :raises ApiError: 400 when ``sort`` names a column twice
        """
        text = self.query.get("sort", ["created_at:desc"])[0]
        # ``asc`` where no way is given
        pairs = tuple((key, way or "asc") for key, _, way in (part.partition(":") for part in text.split(",")))
        if len(dict(pairs)) != len(pairs):
            raise ApiError(400, "invalid_query", "'sort' may name each key only once", field="sort")
        return Page(self.more, self.marker, pairs)

    def cut(
        self, req: webob.Request, found: Sequence[T], marker: Callable[[T], Any]
    ) -> tuple[Sequence[T], Mapping[str, Any]]:
        """Return the items of the page, and its ``links``, which are there only when there is more.

        :param found: :attr:`more` items, or all
        :param marker: what names an item in the next page's query
        """
        shown = found[: self.limit]
        if len(found) <= self.limit:
            return shown, {}
        pairs = [(name, value) for name, given in self.query.items() if name not in _PLACE for value in given]
        pairs += [("limit", str(self.limit)), ("marker", str(marker(shown[-1])))]
        return shown, {"links": [{"rel": "next", "href": f"{req.path_url}?{urllib.parse.urlencode(pairs)}"}]}


_PLACE = ("marker", "limit")
