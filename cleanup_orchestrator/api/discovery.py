"""``/``, ``/v1`` and ``/v1/openapi.json``: what the API offers. These calls need no token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pecan
import webob

from cleanup_orchestrator.api import views


class Discovery:
    """The handlers."""

    def __init__(self, document: Callable[[str], dict[str, Any]]) -> None:
        """Take the function that returns the OpenAPI document for the root of the API."""
        self._document = document

    @pecan.expose("json")
    def versions(self, req: webob.Request, resp: webob.Response) -> dict[str, Any]:
        """Return the versions document."""
        return {"versions": [views.version(req.application_url)]}

    @pecan.expose("json")
    def version(self, req: webob.Request, resp: webob.Response) -> dict[str, Any]:
        """Return the document of version 1."""
        return {"version": views.version(req.application_url)}

    @pecan.expose("json")
    def openapi(self, req: webob.Request, resp: webob.Response) -> dict[str, Any]:
        """Return the OpenAPI document."""
        return self._document(req.application_url)
