"""Runs tests against mutated copies of the source tree.

The runner copies the tree once for each job and never writes to the tree itself. It imports the third-party libraries
once, and forks for each mutation: the child imports the package and the tests from the copy, so that a run costs little
more than its tests.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import gc
import importlib
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from tests.mutants.mutation import DoesNotApply, Mutation

#: What tests and package import of others. A name that is not installed, or not there any more, is left out.
PRELOADED = (
    "pytest _pytest.assertion.rewrite _pytest.python _pytest.junitxml hypothesis hypothesis.strategies "
    "hypothesis.stateful hypothesis.extra._patching requests urllib3 yaml jsonschema webob pecan greenlet iso8601 "
    "alembic.config alembic.command sqlalchemy.dialects.sqlite sqlalchemy.orm stevedore.extension stevedore.driver "
    "os_service_types keystoneauth1.loading keystoneauth1.session keystoneauth1.adapter keystoneauth1.noauth "
    "keystoneauth1.identity.v3 openstack.connection openstack.config.cloud_region openstack.exceptions "
    "openstack.network.v2._proxy openstack.image.v2._proxy openstack.compute.v2._proxy openstack.dns.v2._proxy "
    "openstack.block_storage.v3._proxy openstack.key_manager.v1._proxy openstack.object_store.v1._proxy "
    "openstack.identity.v3._proxy openstack.load_balancer.v2._proxy openstack.orchestration.v1._proxy "
    "oslo_config.cfg oslo_config.types oslo_config.fixture oslo_context.context oslo_db oslo_log.log oslo_messaging "
    "oslo_middleware oslo_policy.policy oslo_utils.timeutils oslo_utils.uuidutils oslo_upgradecheck "
    "prometheus_client keystonemiddleware.auth_token gabbi.driver concurrent.futures.thread http.server zoneinfo "
    "unittest.mock importlib.metadata"
)

#: Of the tests in the named files, those that run anywhere: no server, and nothing that takes minutes.
ARGUMENTS = (
    "-x",
    "-q",
    "--no-header",
    "--tb=short",
    "--disable-warnings",
    "-p",
    "no:cacheprovider",
    "-m",
    "not real and not long",
)

#: Directories that are no source.
_NO_SOURCE = frozenset({"__pycache__", "build", "dist", "node_modules"})

#: Seconds that a test file may take without any mutation.
_PLAIN = 1200.0
#: Seconds between two checks of the children.
_PAUSE = 0.02


class Verdict(StrEnum):
    """What became of a mutation."""

    KILLED = "killed"  #: a test failed
    SURVIVED = "survived"  #: every test passed
    TIMED_OUT = "timed out"  #: the tests did not end in time
    ERROR = "error"  #: the tests did not run: the mutation is no good, or names no test
    DOES_NOT_APPLY = "does not apply"  #: the source has changed


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """A verdict, with the seconds that it took and what the tests printed."""

    name: str
    verdict: Verdict
    seconds: float
    output: str = ""


@dataclasses.dataclass(slots=True)
class _Run:
    """A child at work in one of the copies."""

    name: str
    tree: Path
    output: Path
    began: float
    undo: Callable[[], None]


#: Told each result, with how many there are by then and how many there will be.
Say = Callable[[Result, int, int], None]


def check(
    root: Path,
    mutations: Sequence[Mutation],
    jobs: int,
    seconds: float = 300.0,
    say: Say = lambda *_: None,
    preloaded: str = PRELOADED,
) -> tuple[list[Result], list[Result]]:
    """Run each mutation's tests against a copy of the tree that has the mutation.

    :param root: of the tree; nothing is written there
    :param jobs: mutations at once
    :param seconds: after which the tests of one mutation are ended
    :param say: told each result as soon as it is there
    :param preloaded: modules that are imported once, before the first fork
    :returns: results of the mutations, and of the test files without any mutation; of the former none where one of the
        latter has not passed
    """
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees = [_copy(root, Path(folder, f"tree-{number}")) for number in range(jobs)]
        _preload(preloaded)
        files = dict.fromkeys(path for mutation in mutations for path in mutation.tests)
        plain = _Runner(trees, Path(folder), _PLAIN, say).run([(path, None, (path,)) for path in files])
        if any(result.verdict is not Verdict.SURVIVED for result in plain):
            return [], plain
        return _Runner(trees, Path(folder), seconds, say).run(
            [(mutation.name, mutation, mutation.tests) for mutation in mutations]
        ), plain


_Task = tuple[str, Mutation | None, tuple[str, ...]]


class _Runner:
    """Gives each copy of the tree one task after the other."""

    def __init__(self, trees: Sequence[Path], folder: Path, seconds: float, say: Say) -> None:
        self._free, self._folder, self._seconds, self._say = list(trees), folder, seconds, say
        self._running: dict[int, _Run] = {}
        self._results: list[Result] = []
        self._count = 0

    def run(self, tasks: Sequence[_Task]) -> list[Result]:
        """Run tasks and return their results, in the order in which they ended."""
        waiting, self._results, self._count = collections.deque(tasks), [], len(tasks)
        try:
            while waiting or self._running:
                while waiting and self._free:
                    self._start(*waiting.popleft())
                time.sleep(_PAUSE)
                for pid in tuple(self._running):
                    self._look(pid)
        finally:
            for pid in tuple(self._running):
                self._kill_group(pid)
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        return self._results

    def _start(self, name: str, mutation: Mutation | None, tests: tuple[str, ...]) -> None:
        tree = self._free.pop()
        try:
            undo = _mutate(tree, mutation) if mutation is not None else lambda: None
        except DoesNotApply as error:
            self._free.append(tree)
            self._end(Result(name, Verdict.DOES_NOT_APPLY, 0.0, str(error)))
            return
        output = self._folder / f"{tree.name}.txt"
        sys.stdout.flush()
        sys.stderr.flush()
        if threading.active_count() > 1:
            raise RuntimeError("a library has started a thread: a fork would not be safe")
        pid = os.fork()
        if pid == 0:
            _child(tree, tests, output)
        self._running[pid] = _Run(name, tree, output, time.monotonic(), undo)

    def _look(self, pid: int) -> None:
        """See whether a child has ended, and end it when its time is over."""
        run = self._running[pid]
        ended, status = os.waitpid(pid, os.WNOHANG)
        took = time.monotonic() - run.began
        if not ended and took < self._seconds:
            return
        self._kill_group(pid)
        if not ended:
            os.kill(pid, signal.SIGKILL)  # it may not have its own group yet
            os.waitpid(pid, 0)
        del self._running[pid]
        run.undo()
        shutil.rmtree(run.tree / ".hypothesis", ignore_errors=True)
        self._free.append(run.tree)
        verdict = _verdict(os.waitstatus_to_exitcode(status)) if ended else Verdict.TIMED_OUT
        self._end(Result(run.name, verdict, took, run.output.read_text(errors="replace")))

    @staticmethod
    def _kill_group(pid: int) -> None:
        """End what a child has started, and the child itself."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)

    def _end(self, result: Result) -> None:
        self._results.append(result)
        self._say(result, len(self._results), self._count)


def _verdict(code: int) -> Verdict:
    """Return what pytest's exit code says; only a test that failed has noticed anything."""
    return {0: Verdict.SURVIVED, 1: Verdict.KILLED}.get(code, Verdict.ERROR)


def _copy(root: Path, to: Path) -> Path:
    def ignore(folder: str, names: list[str]) -> set[str]:
        return {
            name
            for name in names
            if name.startswith(".")
            or name in _NO_SOURCE
            or name.endswith(".egg-info")
            or Path(folder, name, "pyvenv.cfg").exists()
        }

    shutil.copytree(root, to, ignore=ignore)
    return to


def _preload(names: str) -> None:
    for name in names.split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # the children share these objects: a collection would copy them


def _mutate(tree: Path, mutation: Mutation) -> Callable[[], None]:
    """Put a defect into a copy; return what takes it out again."""
    path = tree / mutation.file
    before = path.read_text()
    path.write_text(mutation.apply(before))
    _forget_compiled(path)

    def undo() -> None:
        path.write_text(before)
        _forget_compiled(path)

    return undo


def _forget_compiled(path: Path) -> None:
    """Remove what Python has compiled of a file: two versions may have the same size and the same second."""
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()


def _child(tree: Path, tests: Sequence[str], output: Path) -> None:
    """Run tests in a copy, as the only thing that this process does; it does not return."""
    code = 70
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with open(output, "wb") as file, open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        _come_from(tree)
        import pytest

        seeded = ["--hypothesis-seed=0"] if "hypothesis" in sys.modules else []
        code = int(pytest.main([*ARGUMENTS, *seeded, f"--rootdir={tree}", *tests]))
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _come_from(tree: Path) -> None:
    """Have package and tests imported from a copy, in this process and in those that it starts."""
    root = Path(__file__).resolve().parents[2]
    for name in [*sys.modules]:
        if name.partition(".")[0] in ("cleanup_orchestrator", "tests"):
            del sys.modules[name]
    os.chdir(tree)
    sys.path[:] = [str(tree), *(path for path in sys.path if path and Path(path).resolve() != root)]
    os.environ["PYTHONPATH"] = str(tree)
    importlib.invalidate_caches()
    if (tree / "cleanup_orchestrator").exists():
        package = importlib.import_module("cleanup_orchestrator")
        if Path(package.__path__[0]).parent != tree:
            raise RuntimeError(f"the package comes from {package.__path__[0]}, and not from the copy")


def cores() -> int:
    """Return how many processes may run at once on this machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def survivors(results: Sequence[Result]) -> Iterator[Result]:
    """Yield every result that is not ``killed``."""
    return (result for result in results if result.verdict is not Verdict.KILLED)
