"""Names that users choose, on the pages: what looks like another name is shown as it is."""

import pytest
from django.http import HttpResponse
from django.template import Context, Engine
from django.template.response import SimpleTemplateResponse
from django.test import RequestFactory
from django.views import generic

from cleanup_orchestrator import sdk
from tests.unit.dashboard import stand_in

with stand_in.horizon():
    from cleanup_orchestrator.dashboard import calls, pages


def page(name):
    """Return a page that shows a name, rendered after the view has returned it, as Django does it."""

    class Rendered(SimpleTemplateResponse):
        @property
        def rendered_content(self):
            return Engine().from_string("<h1>{{ name }}</h1>").render(Context({"name": name}))

    class Page(pages.Guarded, generic.View):
        def get(self, request):
            return Rendered("page.html")

    return Page.as_view()(RequestFactory().get("/")).render().content.decode()


@pytest.mark.parametrize("character", "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
def test_a_name_cannot_reverse_the_text(character):
    assert page(f"pay{character}gnp.exe") == "<h1>pay?gnp.exe</h1>"


@pytest.mark.parametrize("name", ["مشروع قديم", "déjà", "\U0001f4a5"])
def test_other_names_are_shown_as_they_are(name):
    assert page(name) == f"<h1>{name}</h1>"


def test_a_refusal_cannot_reverse_the_text(monkeypatch):
    class Page(pages.Guarded, generic.View):
        def get(self, request):
            raise sdk.Unreachable("no answer")

    monkeypatch.setattr(pages, "unavailable", lambda *_: HttpResponse("no project pay\u202egnp.exe"))
    assert calls.FAILURES
    assert Page.as_view()(RequestFactory().get("/")).content == b"no project pay?gnp.exe"


def test_a_redirect_is_not_changed():
    class Page(pages.Guarded, generic.RedirectView):
        url = "/identity/"

    assert Page.as_view()(RequestFactory().get("/")).headers["Location"] == "/identity/"
