"""The WSGI entry of Keystone, with a stand-in for each layout of Keystone's modules.

`tests/cloud` serves it in the real Keystone of each release.
"""

import importlib
import sys
import types

import pytest

from cleanup_orchestrator.keystone import assumptions, delegations, fence, guard, options, pipeline, protocol

ENTRY = "cleanup_orchestrator.keystone.wsgi"
#: Keystone's files that serve it, by its release. `keystone.wsgi` exists from release 27 on.
LAYOUTS = {
    "26": {"server/wsgi.py": "import sys\n\ndef initialize_public_application():\n    return ['26', *sys.argv]\n"},
    "27": {"wsgi/api.py": "import sys\n\napplication = ['27', *sys.argv]\n"},
}


def forget():
    for name in [name for name in sys.modules if name.partition(".")[0] == "keystone" or name == ENTRY]:
        del sys.modules[name]


@pytest.fixture
def start(monkeypatch, tmp_path):
    """Import the entry beside a Keystone of these files; return what is served, and the steps of the start."""

    def started(files, user_id="u1"):
        for name, text in ({"conf.py": "", "__init__.py": ""} | files).items():
            path = tmp_path / "keystone" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            (path.parent / "__init__.py").touch()
            path.write_text(text)
        group = types.SimpleNamespace(user_id=user_id, fence_interval=1)
        importlib.import_module("keystone.conf").CONF = {protocol.GROUP: group}
        steps = []
        for owner, name in (
            (fence, "register_options"), (options, "register"), (fence, "guard_tokens"), (guard, "install"),
            (pipeline, "install"), (delegations, "install"), (assumptions, "check"),
        ):  # fmt: skip
            step = f"{owner.__name__.rpartition('.')[2]}.{name}"
            monkeypatch.setattr(owner, name, lambda *_, step=step: steps.append(step))
        return importlib.import_module(ENTRY).application, steps

    forget()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["server", "--workers", "2"])
    yield started
    forget()


def test_the_fence_is_registered_first_and_the_assumptions_are_checked_last(start):
    assert start(LAYOUTS["27"])[1] == [
        "fence.register_options",
        "options.register",
        "fence.guard_tokens",
        "guard.install",
        "pipeline.install",
        "delegations.install",
        "assumptions.check",
    ]


@pytest.mark.parametrize("release", LAYOUTS)
def test_each_release_is_served_without_the_arguments_of_the_server(start, release):
    assert start(LAYOUTS[release])[0] == [release, "server"]
    assert sys.argv == ["server", "--workers", "2"]


def test_a_keystone_that_lacks_a_module_of_its_own_is_not_taken_for_an_older_release(start):
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        start(LAYOUTS["26"] | {"wsgi/api.py": "import nowhere\n"})


@pytest.mark.parametrize("user_id", ["", "  ", None])
def test_without_the_orchestrators_user_keystone_does_not_start(start, user_id):
    """The fence would lock the orchestrator out as well."""
    with pytest.raises(Exception, match=r"user_id is empty in keystone.conf"):
        start(LAYOUTS["27"], user_id)
