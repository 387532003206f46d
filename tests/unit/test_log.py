"""A line of the log is one line, whatever names and ids it repeats."""

import gc
import io
import json
import logging
import re
import sys
import weakref

import pytest
from oslo_config import cfg

from cleanup_orchestrator import log as our_log
from tests.support.cases import each_case


@pytest.fixture
def lines():
    """Log a message; give what was written."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(our_log._Redacting(logging.Formatter("INFO [%(request_id)s] %(message)s")))

    def log(message, *args, request_id="r", exc_info=None):
        record = logging.LogRecord("test", logging.INFO, "p", 1, message, args, exc_info)
        record.request_id = request_id
        handler.emit(record)
        return stream.getvalue()

    return log


@pytest.mark.parametrize("end", ["\n", "\r\n", "\u2028", "\x85", "\x0b"])
def test_a_name_begins_no_line(lines, end):
    written = lines("project %s is deleted", f"x{end}INFO [r] project admin is deleted")
    assert len(written.splitlines()) == 1
    assert "project x\\" in written


def test_an_id_out_of_a_header_begins_none_either(lines):
    assert len(lines("asked", request_id="a\nb").splitlines()) == 1


def test_a_traceback_keeps_its_lines(lines):
    try:
        raise ValueError("password=hush")
    except ValueError:
        written = lines("it broke", exc_info=sys.exc_info())
    assert written.splitlines()[1].startswith("Traceback")
    assert "hush" not in written


def test_what_was_logged_is_not_changed_for_others(lines, caplog):
    record = logging.LogRecord("n", logging.INFO, "p", 1, "a %s", ("b\nc",), None)
    our_log._Redacting(logging.Formatter("%(message)s")).format(record)
    assert record.getMessage() == "a b\nc"


FORGED = "2026-11-24 00:00:00.000 1 CRITICAL root [- deletion=- project=-] forged"
#: How each line of oslo.log's begins that our format and prefix make.
LINE = re.compile(r"\d{4}-\d\d-\d\d \S+ \d+ (ERROR|WARNING) cleanup_test_oslo \[")
ENDS = ["\n", "\r", "\r\n", "\x1b[2K\x1b[1G", "\u2028", "\x85", "\x0b"]


class Empty(Exception):
    def __len__(self):
        return 0


class Strange(Exception):
    def __str__(self):
        raise RuntimeError(f"no text\n{FORGED}")


@pytest.fixture
def logged(monkeypatch):
    """Set logging up as the service does; return a logger and what it wrote, by kind of formatter."""
    root, factory = logging.getLogger(), logging.getLogRecordFactory()
    before, level = root.handlers[:], root.level
    formatters = [(handler, handler.formatter) for handler in before]
    levels = {name: each.level for name, each in root.manager.loggerDict.items() if isinstance(each, logging.Logger)}
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)

    def start(kind="text"):
        stream = io.StringIO()
        conf = cfg.ConfigOpts()
        our_log.register(conf)
        conf(["--use-json"] if kind == "json" else [], project="test", default_config_files=[])
        monkeypatch.setattr(sys, "stdout", stream)
        our_log.setup(conf)
        if kind == "plain":  # as a file of log_config_append may have it
            for handler in root.handlers:
                handler.setFormatter(our_log._Redacting(logging.Formatter("%(message)s")))
        return logging.getLogger("cleanup_test_oslo"), stream.getvalue

    yield start
    root.handlers = before
    root.setLevel(level)
    for handler, formatter in formatters:
        handler.setFormatter(formatter)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    logging.setLogRecordFactory(factory)


def raised(error, cause=None, context=None):
    """Return an exception that was raised, with a traceback."""
    try:
        try:
            if context:
                raise context
        finally:
            raise error from cause if cause is not None else error.__cause__
    except BaseException as exc:
        if context:
            exc.__suppress_context__ = False
        return exc


def noted(error, note):
    error.add_note(note)
    return error


def looped(end):
    first, second = ValueError(f"a{end}{FORGED}"), ValueError(f"b{end}{FORGED}")
    first.__context__, second.__context__ = second, first
    return first


ERRORS = {
    "message": lambda end: RuntimeError(f"x{end}{FORGED}"),
    "cause": lambda end: raised(RuntimeError("x"), cause=OSError(f"y{end}{FORGED}")),
    "context": lambda end: raised(RuntimeError("x"), context=OSError(f"y{end}{FORGED}")),
    "loop": looped,
    "group": lambda end: ExceptionGroup(f"x{end}{FORGED}", [ValueError(f"y{end}{FORGED}"), OSError("z")]),
    "group in a group": lambda end: BaseExceptionGroup(
        "x", [ExceptionGroup("y", [raised(ValueError("z"), cause=KeyError(f"{end}{FORGED}"))]), KeyboardInterrupt()]
    ),
    "note": lambda end: noted(RuntimeError("x"), f"note{end}{FORGED}"),
    "syntax": lambda end: SyntaxError(f"x{end}{FORGED}", (f"f{end}{FORGED}", 1, 1, f"code{end}{FORGED}")),
    "name": lambda end: type(f"X{end}{FORGED}", (Exception,), {"__module__": f"m{end}{FORGED}"})("x"),
    "false": lambda end: raised(Empty(f"x{end}{FORGED}"), cause=Empty(f"y{end}{FORGED}")),
    "no text": lambda end: Strange(),
    "of a group without a text": lambda end: ExceptionGroup("x", [Strange()]),
}


@each_case("end", ENDS, "error", ERRORS, "kind", ["text", "plain"])
def test_the_text_of_an_exception_begins_no_line(logged, kind, error, end):
    logger, written = logged(kind)
    shown = raised(ERRORS[error](end))
    logger.error("it broke", exc_info=(type(shown), shown, shown.__traceback__))  # logging drops a false one else
    text = written()
    assert not re.search(r"[^\n\x20-\x7e]", text)
    assert text.splitlines() == text.removesuffix("\n").split("\n")
    assert "Traceback" in text or "|" in text
    assert all(LINE.match(line) for line in text.splitlines()) or kind == "plain"
    assert not any(line.lstrip(" |+-").startswith(FORGED) for line in text.splitlines())


@pytest.mark.parametrize("end", ENDS)
def test_the_summary_of_an_exception_that_is_being_handled_begins_no_line(logged, end):
    """oslo.log adds it to each warning in an ``except`` block."""
    logger, written = logged()
    try:
        raise OSError(f"x{end}{FORGED}")
    except OSError:
        logger.warning("it broke")
    assert len(written().splitlines()) == 1
    assert LINE.match(written())
    assert ": it broke: " not in written() and "it broke: OSError: x" in written()
    assert not re.search(r"[^\n\x20-\x7e]", written())


@pytest.mark.parametrize("end", ENDS)
def test_an_id_of_the_context_begins_no_line(logged, end):
    """oslo.log copies the context's values over those of the record."""
    logger, written = logged()
    with our_log.context(f"d{end}{FORGED}", f"p{end}{FORGED}", f"r{end}{FORGED}"):
        logger.warning("a")
    assert len(written().splitlines()) == 1
    assert not re.search(r"[^\n\x20-\x7e]", written())


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kind", ["text", "plain"])
def test_what_else_a_record_has_of_an_exception_begins_no_line(logged, kind, end):
    """Another handler may have stored its text of the traceback, and a queue keeps the text alone."""
    logger, written = logged(kind)
    for info in (None, raised(ValueError("x"))):
        record = logger.makeRecord(logger.name, logging.ERROR, "p", 1, "a", (), info and (type(info), info, None))
        record.exc_text = f"Traceback{end}{FORGED}"
        record.stack_info = f"Stack (most recent call last):\n  File x{end.replace(chr(10), '')}\n    y()"
        logger.handle(record)
    lines = written().splitlines()
    assert FORGED not in lines
    assert lines.count("Stack (most recent call last):") == 2
    assert not re.search(r"[^\n\x20-\x7e]", written())


def test_a_stack_keeps_its_lines(logged):
    logger, written = logged()
    logger.error("a", stack_info=True)
    lines = written().splitlines()
    assert lines[1] == "Stack (most recent call last):"
    assert lines[-1] == '    logger.error("a", stack_info=True)'


def test_a_traceback_says_what_it_said_before(logged):
    """The frames, the types and the order of a chain are those of Python's own traceback."""
    import traceback

    logger, written = logged("plain")
    error = raised(KeyError("k"), cause=raised(ValueError("v"), context=json.JSONDecodeError("j", "doc", 1)))
    logger.error("a", exc_info=error)
    assert written() == "a\n" + "".join(traceback.format_exception(error))


def test_no_exception_is_no_error(logged):
    logger, written = logged("plain")
    logger.error("a", exc_info=(None, None, None))
    assert written() == "a\nNoneType: None\n"


def traceback_lines(found):
    """Return the lines of a traceback in JSON: one text, and a list of lines before oslo.log 8."""
    value = found["traceback"]
    return value.splitlines() if isinstance(value, str) else value


@each_case("end", ENDS, "error", ERRORS)
def test_json_is_one_line_and_valid(logged, error, end):
    logger, written = logged("json")
    try:
        raise raised(ERRORS[error](end))
    except BaseException:
        logger.exception("it%sbroke", end)
    assert len(written().splitlines()) == 1
    found = json.loads(written())
    assert FORGED not in traceback_lines(found)
    assert not re.search(r"[^\x20-\x7e]", found["message"] + found["error_summary"])


@pytest.mark.parametrize(
    "text",
    [
        'say "password=hush"',
        "password='hush and no end",
        '{"password": "hush',
        '{"password": "hush it", "n": "{\\"token\\": \\"hush\\"}"}',
        "private_key: -----BEGIN RSA PRIVATE KEY-----\nhush\nhush",
        "a " * 50_000 + "hush",
    ],
)
def test_json_with_a_secret_is_valid_and_keeps_what_comes_after(logged, text):
    logger, written = logged("json")
    logger.error("%s", text, exc_info=raised(RuntimeError(text)))
    found = json.loads(written())
    assert found["levelname"] == "ERROR" and found["funcname"]
    assert traceback_lines(found)[0].startswith("Traceback")
    assert "hush" not in written()


def test_a_line_keeps_nothing_of_an_exception_alive(logged):
    logger, _ = logged()

    class OnHold:
        pass

    def fail():
        held = OnHold()
        seen.append(weakref.ref(held))
        raise RuntimeError("a") from ExceptionGroup("b", [ValueError("c")])

    seen = []
    gc.collect()
    gc.disable()
    try:
        try:
            fail()
        except RuntimeError:
            logger.exception("d")
        assert seen[0]() is None
    finally:
        gc.enable()


def test_the_summary_of_an_exception_that_is_being_handled_is_cut(logged):
    logger, written = logged()
    try:
        raise OSError("password='" + "hush " * 50_000)
    except OSError:
        logger.warning("it broke")
    assert "hush" not in written()
    assert written().endswith("it broke: OSError: password='***'...\n")
