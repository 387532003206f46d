"""Pages of listings: the requested part, and the link to the next page."""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import webob

from cleanup_orchestrator.api.context import ApiContext
from cleanup_orchestrator.api.inputs import invalid_field
from cleanup_orchestrator.store import Page

T = TypeVar("T")

#: Items on a page of a request without a limit.
DEFAULT_LIMIT = 100


@dataclasses.dataclass(frozen=True, slots=True)
class Paging:
    """The part of a listing that a valid query requests."""

    query: Mapping[str, list[str]]
    limit: int  #: items on a page

    @classmethod
    def of(cls, query: Mapping[str, list[str]], context: ApiContext) -> Paging:
        """Return the paging of a query; reduce its limit to the maximum."""
        wanted = int(query["limit"][0]) if "limit" in query else DEFAULT_LIMIT
        return cls(query, min(wanted, context.max_limit))

    @property
    def more(self) -> int:
        """The number of items to read: one above the limit shows that a next page exists."""
        return self.limit + 1

    @property
    def marker(self) -> str | None:
        """The last item of the previous page."""
        return self.query.get("marker", [None])[0]

    @property
    def row(self) -> int | None:
        """The marker of a listing whose items are numbered."""
        return None if self.marker is None else int(self.marker)

    @property
    def page(self) -> Page:
        """The page of a listing that can be sorted; latest first by default.

        :raises ApiError: 400 if ``sort`` names a column twice
        """
        text = self.query.get("sort", ["created_at:desc"])[0]
        # the direction is ``asc`` by default
        pairs = tuple((key, way or "asc") for key, _, way in (part.partition(":") for part in text.split(",")))
        if len(dict(pairs)) != len(pairs):
            raise invalid_field("sort", "may name each key only once", "invalid_query")
        return Page(self.more, self.marker, pairs)

    def cut(
        self, req: webob.Request, items: Sequence[T], marker: Callable[[T], Any]
    ) -> tuple[Sequence[T], Mapping[str, Any]]:
        """Return the items of the page, and its ``links`` if there is a next page.

        :param items: :attr:`more` items, or fewer if there are no more
        :param marker: returns the marker of an item
        """
        shown = items[: self.limit]
        if len(items) <= self.limit:
            return shown, {}
        pairs = [(name, value) for name, given in self.query.items() if name not in _PLACE for value in given]
        pairs += [("limit", str(self.limit)), ("marker", str(marker(shown[-1])))]
        return shown, {"links": [{"rel": "next", "href": f"{req.path_url}?{urllib.parse.urlencode(pairs)}"}]}


_PLACE = ("marker", "limit")
