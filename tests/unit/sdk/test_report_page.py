"""The page of a report: what a tenant writes is text, and it says what it leaves out."""

import html.parser
import re

import pytest

from cleanup_orchestrator.sdk import report_page
from tests.support.evidence import PORT, WHOLE, document, lines, new_signer, report, signed

NASTY = "<script>alert(1)</script>\"'><img src=https://evil.example/x onerror=a>\x1b[2K\u202e\x00\n</table>{{7*7}}&lt;"
#: Elements that the page may have. None of them fetches or runs anything.
HARMLESS = {
    "html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "table", "tr", "td", "th", "code", "div", "ul",
    "li", "b",
}  # fmt: skip


class Elements(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.names, self.attributes, self.data = set(), set(), []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.attributes |= {(tag, name) for name, _value in attrs}

    def handle_data(self, data):
        self.data.append(data)


def filled(value):
    """Return an answer in which every text is ``value``."""
    made = document(new_signer())
    made["report"] |= {
        "deletion": {
            **dict.fromkeys(("id", "project_id", "project_name", "domain_id", "mode", "origin", "user_name"), value),
            **dict.fromkeys(("user_id", "request_id", "created_at", "finished_at", "status", "request_reason"), value),
            "ticket": value,
            "approvals": [dict.fromkeys(("at", "user_name", "user_id", "request_id", "reason"), value)],
            "forced": dict.fromkeys(("at", "user_name", "user_id", "request_id", "reason"), value),
            "waivers": [dict.fromkeys(("service_type", "region", "expires_at", "reason"), value)],
            "counts": [dict.fromkeys(("region", "service", "type", "found", "kept", "remaining", "outcome"), value)],
        },
        "lock": dict.fromkeys(
            ("driver", "evidence", "held_since", "closed_since", "settled_at", "token_cache_time", "unseen_changes"),
            value,
        ),
        "facts": {
            "inventories": [dict.fromkeys(("began_at", "ended_at", "message"), value)],
            "types": [dict.fromkeys(("region", "service", "type", "deleted", "abandoned"), value)],
            "requests": [dict.fromkeys(("at", "type", "actor", "message"), value)],
            "unseen": [{"message": value}],
            "waivers": [{"message": value}],
        },
        "journal": dict.fromkeys(("length", "digest", "problem", "withheld"), value),
        **dict.fromkeys(("verdict", "made_at", "made_by", "key", "remains"), value),
        "rests_on": [value],
    }
    resource = {"id": value, "name": value}
    data = {"region": value, "service": value, "type": value, "resources": [resource]}
    made["journal"] = [{"type": "resource.deleted", "at": value, "data": data}]
    return made


def test_every_text_of_a_tenant_or_a_service_is_escaped():
    found = Elements(report_page.page(filled(NASTY)))
    assert found.names == HARMLESS
    assert {name for _tag, name in found.attributes} <= {"lang", "charset", "http-equiv", "content", "name", "class"}
    text = "".join(found.data)
    assert not re.search("[\x00-\x09\x0b-\x1f\u202a-\u202e]", text)
    assert text.count("<script>alert(1)</script>") > 30  # it is there, as text


def test_the_page_forbids_what_it_does_not_need():
    made = report_page.page(document(None))
    assert "default-src 'none'" in made
    assert not re.search(r"https?:|//|url\(|@import|<script|<a |<img|<link", made)


@pytest.mark.parametrize("value", [None, [], {}, 0, "x", True])
def test_an_answer_of_another_form_is_no_error(value):
    """A newer or a broken server: the page shows less."""
    assert "<h1>" in report_page.page(filled(value))
    assert "<h1>" in report_page.page({"report": value, "journal": value})
    assert "<h1>" in report_page.page({})
    made = document(None)
    made["journal"] = [
        value,
        {"type": "resource.deleted", "data": value},
        {"type": value, "data": {"resources": value}},
    ]
    assert "<h1>" in report_page.page(made)


def test_a_report_that_proves_nothing_says_so_on_top():
    made = report_page.page(document(None, WHOLE[:-1], "verifying"))
    assert '<p class="verdict">Not ended: no proof.' in made and 'class="verdict proven"' not in made
    assert made.index("Not ended: no proof") < made.index("<table>")
    assert "<b>unsigned</b>" in made
    assert '<p class="verdict proven">Deleted.' in report_page.page(document(new_signer()))


def test_a_long_annex_says_how_much_it_leaves_out():
    resources = [{"id": f"id-{n}", "name": f"name-{n}"} for n in range(100)]
    gone = [WHOLE[5].__class__("resource.deleted", "x", "w", {**PORT, "resources": resources})] * 3
    journal = lines([*WHOLE[:5], *gone, *WHOLE[6:]])
    made = signed(journal, report(journal), None)
    page = report_page.page(made, most_listed=250)
    assert page.count("<td>id-") == 250 and "50 more lines, in the JSON of the report." in page
    assert "more lines" not in report_page.page(made, most_listed=300)
    assert len(report_page.page(made)) < 60_000


def test_the_first_page_has_the_reason_if_the_api_has_one():
    """The one place for fields that say why a deletion was requested."""
    made = document(None)
    assert ">Reason<" not in report_page.page(made)
    made["report"]["deletion"] |= {"request_reason": "contract 4711 ended", "ticket": "T-1"}
    assert '<th class="k">Reason</th><td>contract 4711 ended</td>' in report_page.page(made)
    assert '<th class="k">Ticket</th><td>T-1</td>' in report_page.page(made)


def test_the_types_of_the_lists_and_of_the_journal_are_in_one_table():
    made = document(None)
    made["report"]["deletion"]["counts"] = [
        {**PORT, "found": 5, "kept": 3, "remaining": 0, "outcome": "clear"},
        {**PORT, "type": "network", "found": 1, "kept": 1, "remaining": 0, "outcome": "clear"},
    ]
    page = report_page.page(made)
    row = '<td>network.port</td><td class="n">5</td><td class="n">2</td><td class="n">3</td><td class="n">0</td>'
    assert row in page and page.count("<td>network.network</td>") == 2  # and in the annex


def test_the_first_page_stays_short_with_many_types():
    counts = [{**PORT, "type": f"t{n}", "found": n % 2, "outcome": "clear", "remaining": 0} for n in range(100)]
    counts += [{**PORT, "type": "u", "found": 0, "outcome": "unknown"}]
    made = document(None)
    made["report"]["deletion"]["counts"] = counts
    first, annex = report_page.page(made).split("Annex: requests")
    assert first.count("<td>network.") == 6 and annex.count("<td>network.t") + annex.count("<td>network.u") == 101
    assert "<td>network.u</td>" in first, "what was not listed comes first"
    assert "96 more types, in the annex; of 50 the lists were empty from the beginning." in first
