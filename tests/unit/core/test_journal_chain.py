"""The hash chain of a journal: one changed byte is found, and so is a line that is gone or in another place."""

import copy
import datetime
import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanup_orchestrator.core.journal_chain import COVERED, EMPTY, BrokenChain, Head, checked, linked, moment

AT = datetime.datetime(2026, 1, 2, 3, 4, 5)


def chain(lines):
    head, made = EMPTY, []
    for number, line in enumerate(lines, 1):
        line = {"deletion_id": "d", "sequence": number, **line}
        head = linked(head, line)
        made.append({**line, "digest": head.digest})
    return head, made


def walk(lines):
    head = EMPTY
    for line in lines:
        head = checked(head, line)
    return head


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
LINE = st.fixed_dictionaries(
    {
        "at": st.datetimes(AT, AT.replace(year=2030)).map(moment),
        "type": TEXT, "message": TEXT, "actor": TEXT, "request_id": TEXT,
        "data": st.dictionaries(TEXT, TEXT | st.integers(0, 9) | st.floats(0, 1) | st.lists(TEXT), max_size=3),
    }
)  # fmt: skip
LINES = st.lists(LINE, min_size=2, max_size=5)


def test_a_known_digest():
    """What another program computes from the manual: the form of a line may never change by mistake."""
    line = {"deletion_id": "d", "sequence": 1, "at": moment(AT), "type": "t", "message": "m", "actor": "a"}
    head = linked(EMPTY, line | {"request_id": "r", "data": {"b": 1, "a": None}, "extra": "is not covered"})
    text = (
        '{"actor":"a","at":"2026-01-02T03:04:05.000000Z","data":{"a":null,"b":1},"deletion_id":"d","message":"m",'
        '"previous":"","request_id":"r","sequence":1,"type":"t"}'
    )
    assert head == Head(1, hashlib.sha256(text.encode()).hexdigest())


@given(LINES)
def test_a_chain_is_whole(lines):
    head, made = chain(lines)
    assert walk(made) == head and head.length == len(lines)
    assert walk(json.loads(json.dumps(made))) == head


@given(LINES, st.data())
def test_each_changed_value_is_found_at_its_line(lines, data):
    _head, made = chain(lines)
    number = data.draw(st.integers(0, len(made) - 1))
    name = data.draw(st.sampled_from([*COVERED, "digest"]))
    value = made[number][name]
    if isinstance(value, str):
        place = data.draw(st.integers(0, len(value)))
        made[number][name] = value[:place] + data.draw(st.sampled_from("x0\x00")) + value[place:]
    else:
        made[number][name] = value + 1 if name == "sequence" else {**value, "\U0001f600": 0}
    with pytest.raises(BrokenChain) as found:
        walk(made)
    assert found.value.sequence == number + 1


@given(LINES, st.data())
def test_lines_that_are_dropped_doubled_or_swapped_are_found(lines, data):
    head, made = chain(lines)
    number = data.draw(st.integers(0, len(made) - 2))
    for changed in (
        made[:number] + made[number + 1 :],
        made[: number + 1] + made[number:],
        [*made[:number], made[number + 1], made[number], *made[number + 2 :]],
    ):
        with pytest.raises(BrokenChain):
            walk(changed)
    assert walk(made[:-1]) != head  # a chain that is cut off is whole: its head is what shows it


@given(LINES)
def test_a_changed_line_with_its_own_digest_breaks_the_next_one(lines):
    """Who can write the database has to write each later line anew, and the head."""
    _head, made = chain(lines)
    forged = made[-2] | {"message": made[-2]["message"] + "x"}
    before = Head(len(made) - 2, made[-3]["digest"] if len(made) > 2 else "")
    made[-2] = forged | {"digest": linked(before, forged).digest}
    with pytest.raises(BrokenChain) as found:
        walk(made)
    assert found.value.sequence == len(made)


@given(LINES)
def test_a_line_of_another_deletion_does_not_fit(lines):
    _head, made = chain(lines)
    other = copy.deepcopy(made)
    other[0]["deletion_id"] = "e"
    with pytest.raises(BrokenChain):
        walk(other)


def test_a_line_that_cannot_be_hashed_breaks_the_chain():
    _head, made = chain([{"at": "", "type": "", "message": "", "actor": "", "request_id": "", "data": {}}])
    for value in ({"x": 2**60}, {"x": "\ud800"}):
        with pytest.raises(BrokenChain, match="line 1 of the journal: it cannot be hashed"):
            checked(EMPTY, made[0] | {"data": value})
    for value in (True, "1", None, 2):
        with pytest.raises(BrokenChain, match="it is missing"):
            checked(EMPTY, made[0] | {"sequence": value})
