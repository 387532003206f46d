"""The check of a report: one changed value anywhere is found, with and without a signature."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanup_orchestrator.core import canonical
from cleanup_orchestrator.evidence.verify import ReportWrong, parsed, verified
from tests.support.evidence import WHOLE, document, lines, new_signer, report, signed

SIGNER = new_signer()
KEYS = {SIGNER.public.kid: SIGNER.public}
TEXT = canonical.encoded(document(SIGNER))


def wrong(changed, keys=KEYS):
    with pytest.raises(ReportWrong) as found:
        verified(changed, keys)
    assert "\n" not in str(found.value)
    return str(found.value)


def test_a_whole_report():
    found = verified(parsed(TEXT), KEYS)
    assert (found.proven, found.signed, found.kid) == (True, True, SIGNER.public.kid)
    found = verified(parsed(TEXT), None)
    assert (found.proven, found.signed, found.kid) == (True, True, "")
    found = verified(document(None), KEYS)
    assert (found.proven, found.signed, found.kid) == (True, False, "")


@given(st.integers(0, len(TEXT) - 1), st.integers(1, 255))
def test_each_changed_byte_is_found(place, other):
    """Without one exception: no byte of the file is a blank."""
    changed = bytearray(TEXT)
    changed[place] ^= other
    with pytest.raises(ReportWrong):
        verified(parsed(bytes(changed)), KEYS)


@given(st.integers(0, len(TEXT) - 2), st.integers(1, 50))
def test_each_cut_is_found(place, length):
    with pytest.raises(ReportWrong):
        verified(parsed(TEXT[:place]), KEYS)
    with pytest.raises(ReportWrong):
        verified(parsed(TEXT[:place] + TEXT[place + length :]), KEYS)


def paths(value, path=()):
    """Return the path of each value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield from paths(each, (*path, key))


WHERE = [path for path in paths(document(SIGNER)) if path]


@given(st.sampled_from(WHERE), st.sampled_from([None, "", "x", 0, 1, True, [], {}, {"x": 1}, [None], 2**70, "\ud800"]))
def test_each_changed_value_is_found(path, other):
    changed = document(SIGNER)
    at = changed
    for key in path[:-1]:
        at = at[key]
    if canonical_or_none(at[path[-1]]) == canonical_or_none(other):
        return
    at[path[-1]] = other
    wrong(changed)


def canonical_or_none(value):
    try:
        return canonical.encoded(value)
    except canonical.NotCanonical:
        return None


#: By name: a change of an unsigned report whose chain is not computed anew, and the error.
CHANGES = {
    "a line": (lambda d: d["journal"][5].update(message="3 gone"), "line 6 of the journal: it, or a line before"),
    "data": (lambda d: d["journal"][5]["data"]["resources"].pop(), "line 6 of the journal"),
    "a dropped line": (lambda d: d["journal"].pop(4), "line 5 of the journal: it is missing"),
    "the last line": (lambda d: d["journal"].pop(), "the journal ends after line 12"),
    "swapped": (lambda d: d["journal"].insert(4, d["journal"].pop(5)), "line 5 of the journal: it is missing"),
    "all lines": (lambda d: d["journal"].clear(), "the journal ends after line 0"),
    "the head": (lambda d: d["report"]["journal"].update(digest="0" * 64), "the journal ends after line 13"),
    "the length": (lambda d: d["report"]["journal"].update(length=12), "the journal ends after line 13"),
    "the deletion": (lambda d: d["report"]["deletion"].update(id="another"), "line 1 of the journal"),
    "its status": (lambda d: d["report"]["deletion"].update(status="failed"), "verdict of the report does not follow"),
    "facts": (lambda d: d["report"]["facts"].update(deleted=1), "disagree about 'deleted'"),
    "more facts": (lambda d: d["report"]["facts"].update(x=1), "no report of a deletion"),
    "fewer facts": (lambda d: d["report"]["facts"].pop("waivers"), "disagree about 'waivers'"),
    "the verdict": (lambda d: d["report"].update(verdict="Deleted."), "verdict of the report does not follow"),
    "the proof": (lambda d: d["report"].update(proven=False), "verdict of the report does not follow"),
    "a problem": (lambda d: d["report"]["journal"].update(problem="x"), "verdict of the report does not follow"),
    "withheld": (lambda d: d["journal"][5].update(withheld=True), "may not see all, or its number, was changed"),
    "the id of a line": (lambda d: d["journal"][5].update(id=1), "may not see all, or its number, was changed"),
    "one more field": (lambda d: d["journal"][5].update(x=1), "line 6 of the journal: it is no line"),
    "a text for a number": (lambda d: d["journal"][5].update(sequence="6"), "line 6 of the journal: it is no line"),
    "a truth for a number": (lambda d: d["journal"][0].update(sequence=True), "line 1 of the journal: it is no line"),
    "the form": (lambda d: d["report"].update(format="project-cleanup-report/2"), "check it with the release"),
    "a key": (lambda d: d["report"].update(key="x"), "the signature was removed or added"),
    "a signature": (lambda d: d.update(signature="x..y"), "the signature was removed or added"),
    "no report": (lambda d: d.pop("report"), "no report of a deletion"),
    "one more part": (lambda d: d.update(more={}), "no report of a deletion"),
    "no deletion": (lambda d: d["report"].pop("deletion"), "no report of a deletion"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_report_without_a_signature(name):
    change, text = CHANGES[name]
    changed = document(None)
    change(changed)
    assert text in wrong(changed, None)


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_report_with_a_signature(name):
    change, _text = CHANGES[name]
    changed = document(SIGNER)
    change(changed)
    wrong(changed)


def test_a_journal_that_was_written_anew_is_found_by_the_signature_alone():
    """An admin of the database can do that: the manual says what to keep for it."""
    events = [*WHOLE[:5], *WHOLE[6:]]
    anew = lines(events)
    forged = {**document(SIGNER), "journal": anew, "report": report(anew) | {"key": SIGNER.public.kid}}
    assert verified(forged, None).proven
    assert "changed after it was signed" in wrong(forged)


def test_no_trusted_key_is_not_the_same_as_no_check():
    assert "not among the given keys" in wrong(document(SIGNER), {})


def test_a_signature_that_was_removed():
    changed = document(SIGNER)
    changed["signature"] = None
    assert "the signature was removed" in wrong(changed)
    changed["report"]["key"] = ""  # it is now an unsigned report, and the exit code says so
    assert not verified(changed, KEYS).kid


def test_the_signature_of_another_report():
    other = document(SIGNER, WHOLE[:-1], "verifying")
    assert "changed after it was signed" in wrong(document(SIGNER) | {"signature": other["signature"]})


def test_a_key_that_the_report_does_not_name():
    other = new_signer()
    made = document(SIGNER)
    made["signature"] = other.sign(canonical.encoded(made["report"]))
    assert "names another key" in wrong(made, {**KEYS, other.public.kid: other.public})
    assert "not among the given keys" in wrong(made)


def test_lines_that_the_reader_may_not_see():
    """Their place is checked, and with a signature their shown form."""
    journal = lines(WHOLE)
    journal[2] |= {"message": "", "withheld": True}
    made = signed(journal, report(journal), SIGNER)
    assert verified(made, KEYS).report["journal"]["withheld"] == 1
    changed = copy.deepcopy(made)
    changed["journal"][2]["message"] = "x"
    assert "may not see all" in wrong(changed)
    changed = copy.deepcopy(made)
    changed["journal"][2]["sequence"] = 4
    assert "line 3 of the journal: it is missing" in wrong(changed)
    changed["journal"][2] |= {"sequence": 3, "digest": "0" * 64}
    assert "line 4 of the journal" in wrong(changed)


def test_a_report_that_says_that_the_journal_was_changed():
    journal = lines(WHOLE)
    journal[5]["message"] = "3 gone"
    made = signed(journal, report(journal), SIGNER)
    assert "line 6 of the journal: it, or a line before it, was changed" in wrong(made)


def test_what_proves_nothing():
    made = document(SIGNER, WHOLE[:-1], "verifying")
    assert not verified(made, KEYS).proven


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"\xff", b'{"a":1,"a":2}', b'{"report":{"x":1,"x":1}}', b"NaN", b"[Infinity]", b"[" * 100_000,
     b"1" * 5000],
)  # fmt: skip
def test_what_two_readers_could_read_differently(text):
    with pytest.raises(ReportWrong) as found:
        parsed(text)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("value", [None, 1, [], {}, "x", {"journal": [], "report": {}, "signature": None},
                                   {"journal": {}, "report": [], "signature": 1}])  # fmt: skip
def test_what_is_no_report(value):
    wrong(value)


def test_a_document_that_is_nested_too_deep():
    deep = json.loads("[" * 400 + "]" * 400)
    for _ in range(400):
        deep = [deep]
    changed = document(None)
    changed["journal"][3]["data"] = {"x": deep}
    wrong(changed)
