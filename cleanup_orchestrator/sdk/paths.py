"""Paths and queries of calls."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

from openstack import resource


def next_query(body: Mapping[str, Any]) -> str:
    """Return the query of the next page; an empty text: there is none.

    Only the query of the link is used: behind a proxy the link can name an internal host, and the token must be sent
    only to the endpoint.
    """
    links = body.get("links") or []
    following = next((link.get("href") for link in links if link.get("rel") == "next"), None)
    return urllib.parse.urlsplit(following or "").query


def id_of(value: Any) -> Any:
    """Return the id of a resource; an id stays as it is."""
    return value.id if isinstance(value, resource.Resource) else value


def path_of(value: Any) -> str:
    """Return an id as one part of a path."""
    return urllib.parse.quote(id_of(value), safe="")


def flat(filters: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the name and each value of filters."""
    for name, value in filters.items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            yield name, id_of(one)
