"""The calls of the client: which errors a repetition helps, what a login means, and lists that never end."""

import pytest

from cleanup_orchestrator import sdk
from cleanup_orchestrator.sdk.proxy import Proxy


class Pages(Proxy):
    """A client whose server gives pages; the last one again and again."""

    def __init__(self, *pages):
        self.pages, self.asked = list(pages), []

    def root(self):
        return "https://cleanup.example.com/v1"

    def _call(self, method, path, **more):
        assert len(self.asked) < 9, "it is read for ever"
        self.asked.append(more["params"])
        ids, following = self.pages.pop(0) if len(self.pages) > 1 else self.pages[0]
        links = [{"rel": "next", "href": f"https://internal.invalid/v1/liens?{following}"}] if following else []
        return {"liens": [{"id": id_} for id_ in ids], "links": links}


def test_a_list_is_read_to_its_end_with_the_query_of_each_link():
    pages = Pages((["a"], "marker=a&limit=1"), (["b"], ""))
    assert [lien.id for lien in pages.liens(origin="billing")] == ["a", "b"]
    assert pages.asked == [[("origin", "billing")], [("marker", "a"), ("limit", "1")]]


@pytest.mark.parametrize("ids", [["b"], []])
def test_a_server_whose_pages_do_not_end_is_not_read_for_ever(ids):
    assert [lien.id for lien in Pages((["a"], "marker=a"), (ids, "marker=a")).liens()] == ["a", *ids]


def test_an_id_is_one_part_of_a_path():
    """Otherwise a record could be named that is of another kind."""

    class One(Pages):
        def _call(self, method, path, **more):
            self.asked.append(path)
            return {"lien": {"id": "l"}}

    one = One()
    one.get_lien("../deletions/d?x")
    assert one.asked == ["/liens/..%2Fdeletions%2Fd%3Fx"]


@pytest.mark.parametrize("body", [{}, {"liens": None}, {"liens": "none"}, {"liens": ["a"]}, {"errors": []}])
def test_an_answer_without_a_list_is_none_of_the_api(body):
    """An empty list would say that nothing protects a project."""

    class Another(Pages):
        def _call(self, method, path, **more):
            return body

    with pytest.raises(sdk.Unreachable, match="does not answer like the project-cleanup API"):
        list(Another().liens())
