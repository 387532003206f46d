"""What the API says of its own release."""

import importlib.metadata

from cleanup_orchestrator.api import microversions


def test_the_release_is_that_of_the_installed_package():
    assert microversions.release() == importlib.metadata.version("cleanup-orchestrator")


def test_a_checkout_that_is_not_installed_says_so(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert microversions.release() == "of a checkout"
