"""Barbican with the default policy of 2025.1 to 2026.1: the role for the quotas of projects."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cleanup_orchestrator.core.deletion import Mode, Status
from tests.cloud import filler
from tests.cloud.conftest import free_port_base
from tests.cloud.fillings.base import Filled, Rest
from tests.cloud.launcher import Cloud
from tests.cloud.orchestrator import Orchestrator
from tests.cloud.proof import database

ROLE = "key-manager:service-admin"


@pytest.fixture(scope="module")
def earlier(older, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """Keystone and Barbican, with Barbican's own default."""
    release, venv = older
    policy = {"barbican": {"oslo_policy": {"enforce_new_defaults": "false"}}}
    directory, base = tmp_path_factory.mktemp("cloud"), free_port_base()
    with Cloud(directory, venv, base, services=("barbican",), release=release, extra_config=policy) as made:
        yield made


def fill(cloud: Cloud, name: str) -> Filled:
    """Return a project with a secret and a quota. Its user has the role `creator`, as that policy wants."""
    admin = filler.connect(cloud.auth_url, "admin", cloud.site.password, "admin")
    made = filler.fill(admin, name, only=())
    cloud.admin.ensure_role(made.project_id, made.user_id, "creator")
    user = filler.connect_as(admin, made.user_name, made.password, made.project_name)
    Rest(user.key_manager).call("POST", "/secrets", {"payload": "x", "payload_content_type": "text/plain"})
    cloud.admin.ensure_user("quota-admin", "secret", "service", ("admin", ROLE))
    boss = filler.connect_as(admin, "quota-admin", "secret", "service")
    Rest(boss.key_manager).call("PUT", f"/project-quotas/{made.project_id}", {"project_quotas": {"secrets": 5}})
    return made


def quotas(cloud: Cloud) -> int:
    """Return how many projects have a quota, in Barbican's database."""
    with database(cloud.site.database("barbican")) as connection:
        (count,) = connection.execute("SELECT COUNT(*) FROM project_quotas WHERE deleted = 0").fetchone()
    connection.close()
    return count


@pytest.mark.parametrize("role", [(), (ROLE,)], ids=["without the role", "with the role"])
def test_without_the_role_the_quota_stays_and_the_report_says_so(earlier: Cloud, tmp_path, role):
    filled, before = fill(earlier, f"earlier-{len(role)}"), quotas(earlier)
    earlier.admin.ensure_user("orchestrator", "orchestrator", "service", role)
    orchestrator = Orchestrator(earlier, tmp_path)
    try:
        deletion_id = orchestrator.run(filled.project_id, Mode.CASCADE, Status.DELETED)
        message = orchestrator.store.get(deletion_id).message
        assert orchestrator.step(deletion_id, "key-manager.secret").deleted == 1
    finally:
        orchestrator.running.close()
    left = "but settings of the project: key-manager.project_quota"
    assert (left in message, quotas(earlier)) == ((False, before - 1) if role else (True, before))
