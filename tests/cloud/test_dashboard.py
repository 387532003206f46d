"""The panels in a real Horizon, in a real Chromium: what an admin, a domain manager and a member see and can do."""

from __future__ import annotations

import os
import pathlib
import secrets
import shutil
import time
from collections.abc import Iterator
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from cleanup_orchestrator import sdk
from tests.cloud import demo, filler
from tests.cloud.browser import Browser
from tests.cloud.conftest import free_port_base
from tests.cloud.fillings.base import Rest
from tests.cloud.forcing import FORCE, PATIENCE, Forcing
from tests.cloud.horizon import Horizon, horizon_venv
from tests.cloud.launcher import FENCED, Cloud
from tests.cloud.proof import left
from tests.support.timing import wait

pytestmark = pytest.mark.real

ROOT = pathlib.Path(__file__).parents[2]
SCREENSHOTS = pathlib.Path(os.environ.get("CLEANUP_SCREENSHOTS") or ROOT / ".tox" / "screenshots")
DELETIONS = "/identity/project_deletions/"
PANELS = ("deletions", "liens", "waivers", "brake", "orphans", "services")
#: A scan reads again at once, so that a test need not wait for an hour.
ORPHANS = """
[orphans]
min_age = 0
reread_after = 1
"""
MARKUP = '<b onclick="alert(1)">x</b><script>document.title="!"</script>'
ARABIC = "مشروع قديم"
SECONDS = 600  #: that a deletion may take


class Site:
    """A fenced light cloud, the orchestrator and Horizon."""

    def __init__(self, cloud: Cloud, orchestrator: Forcing, horizon: Horizon) -> None:
        self.cloud, self.orchestrator, self.horizon = cloud, orchestrator, horizon
        self.password = cloud.site.password
        self.admin = filler.connect(cloud.auth_url, "admin", self.password, "admin")
        self.admin.add_service(sdk.DESCRIPTION)
        self.api = self.admin.project_cleanup

    def browser(self, **options: Any) -> Browser:
        return Browser(self.horizon.url, SCREENSHOTS, **options)

    def fill(self, name: str, *only: str) -> filler.Filled:
        return filler.fill(self.admin, f"{name}-{secrets.token_hex(2)}", only=only or None)

    def ended(self, deletion_id: str, status: str) -> Any:
        return self.api.wait_for_deletion(deletion_id, status=status, wait=SECONDS)

    def stuck(self, filled: filler.Filled) -> tuple[str, str]:
        """Begin a cascade of a project whose network has a port of a neighbour; return its ID and that of the port."""
        neighbour = self.fill("neighbour", "image")
        api = Rest(self.admin.network)
        wanted = {"network": {"name": "held", "project_id": filled.project_id}}
        network = api.call("POST", "/networks", wanted)["network"]["id"]
        subnet = {"network_id": network, "ip_version": 4, "cidr": "10.9.0.0/24", "project_id": filled.project_id}
        api.call("POST", "/subnets", {"subnet": subnet})
        body = {"port": {"network_id": network, "project_id": neighbour.project_id}}
        port = api.call("POST", "/ports", body)["port"]["id"]
        made = self.api.create_deletion(filled.project_id, mode="cascade")
        wait("it is blocked", lambda: self.condition(made.id, "blocked"), SECONDS, 1)
        return made.id, port

    def condition(self, deletion_id: str, kind: str) -> bool:
        return any(c.type == kind and c.status for c in self.api.get_deletion(deletion_id).conditions)

    def release(self, port: str) -> None:
        Rest(self.admin.network).call("DELETE", f"/ports/{port}")

    def live(self) -> list[Any]:
        return list(self.api.deletions(status="live"))


@pytest.fixture(scope="module")
def site(cloud_venv: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if not shutil.which("chromium") and not os.environ.get("CI"):
        pytest.skip("no browser: install chromium and its driver")
    directory = tmp_path_factory.mktemp("dashboard")
    with Cloud(directory / "cloud", cloud_venv, port_base=free_port_base(), **FENCED) as cloud:
        orchestrator = Forcing(cloud, demo.CONFIGURATION + FORCE.format(PATIENCE) + ORPHANS)
        orchestrator.start_orchestrator()
        cloud.admin.ensure_inherited_role(demo.USER, "admin")
        venv = horizon_venv(cloud, ROOT / ".tox" / "horizon")
        horizon = Horizon(directory / "horizon", venv, cloud.auth_url, free_port_base(), cloud.children)
        horizon.start()
        made = Site(cloud, orchestrator, horizon)
        yield made
        assert "Traceback" not in horizon.log()


@pytest.fixture(scope="module")
def browser(site: Site) -> Iterator[Browser]:
    """A browser in which an admin of the cloud is logged in."""
    with site.browser() as made:
        made.login("admin", site.password)
        made.console()  # without Nova, the first page after the login is refused
        yield made


@pytest.fixture(autouse=True)
def picture(request: pytest.FixtureRequest) -> Iterator[None]:
    """Keep what the page looked like when a test failed."""
    failed = request.session.testsfailed
    yield
    if request.session.testsfailed > failed and "browser" in request.fixturenames:
        request.getfixturevalue("browser").shot(f"failed-{request.node.name}")


def open_request(browser: Browser, project_id: str) -> None:
    """Open the page of the row action, as its link in the table of the projects has it."""
    browser.open("/identity/")
    link = browser.get(f"#tenants__row_{project_id}__action_delete_with_contents").get_attribute("href")
    browser.open(link.removeprefix(browser.url))


def dry_run(browser: Browser, project_id: str, mode: str) -> str:
    """Start a dry run on the form of the request, wait for its end, and return its ID."""
    open_request(browser, project_id)
    browser.click(f"input[name=mode][value={mode}]")
    browser.submit("#pc-show")
    browser.get("#pc-confirm-form", SECONDS)
    goes = browser.get("[id^='pc-goes-']").get_attribute("id")
    return goes.removeprefix("pc-goes-")


def open_deletion(browser: Browser, deletion_id: str, tab: str = "overview") -> None:
    browser.open(f"{DELETIONS}{deletion_id}/?tab={tab}")


def test_a_dry_run_shows_what_goes_and_the_cascade_deletes_just_that(site: Site, browser: Browser) -> None:
    filled = site.fill("retired")
    before = left(site.cloud, filled.project_id)
    identity = dry_run(browser, filled.project_id, "cascade")
    assert "image.image" in browser.text(f"#pc-types-{identity}") and browser.has(f"#pc-summary-{identity}")
    browser.shot("preview")
    browser.click(f"#pc-other-types-{identity} > summary")
    goes = browser.text(f"#pc-goes-{identity}")
    assert "network" in goes and "image" in goes and "object" in goes
    assert browser.has(f"#pc-bound-{identity}"), "the plan saw everything, and so the cascade is bound to it"
    assert left(site.cloud, filled.project_id) == before, "a dry run changes nothing"

    browser.type(f"id_{identity}-typed", "another name")
    browser.submit("#pc-request")
    assert not [d for d in site.live() if not d.dry_run], "the name has to be that of the project"
    assert "This is not the name of the project" in browser.text("#pc-summary")
    focused = browser.driver.execute_script("return document.activeElement.id")
    assert focused == f"id_{identity}-typed", "the first wrong field has the focus"
    assert browser.inaccessible() == []
    browser.type(f"id_{identity}-typed", filled.project_name)
    browser.submit("#pc-request")
    (made,) = [d for d in site.api.deletions(project_id=filled.project_id) if not d.dry_run]
    assert (made.mode, made.plan_id) == ("cascade", identity)
    assert DELETIONS + made.id in browser.driver.current_url

    site.ended(made.id, "deleted")
    browser.until(lambda: "Deleted" in browser.text("#pc-states"), "refreshed page", 60)
    assert not any(left(site.cloud, filled.project_id).values())
    for tab, css in (("journal", "#pc-journal"), ("plan", "#pc-plan-types")):
        open_deletion(browser, made.id, tab)
        assert browser.has(css)
    assert browser.console() == []


def test_a_report_leaves_everything_and_lists_it(site: Site, browser: Browser) -> None:
    filled = site.fill("reported", "image", "key-manager")
    before = left(site.cloud, filled.project_id)
    dry_run(browser, filled.project_id, "report")
    preview = browser.driver.current_url.removeprefix(browser.url)
    browser.submit("#pc-request")
    (made,) = [d for d in site.api.deletions(project_id=filled.project_id) if not d.dry_run]
    site.ended(made.id, "leftovers")
    browser.open(preview)
    browser.submit("#pc-request")
    assert "requested already" in browser.text("#pc-problems")
    assert [d.id for d in site.api.deletions(project_id=filled.project_id) if not d.dry_run] == [made.id]
    open_deletion(browser, made.id, "leftovers")
    shown = browser.text("#pc-leftovers")
    images = [image.id for image in site.admin.image.images(owner=filled.project_id)]
    assert images and all(image in shown for image in images)
    assert left(site.cloud, filled.project_id) == before


def test_a_blocker_is_shown_with_its_owner_and_cleared(site: Site, browser: Browser) -> None:
    filled = site.fill("blocked", "image")
    identity, port = site.stuck(filled)
    open_deletion(browser, identity)
    blockers = browser.text("#pc-blockers")
    assert "neighbour-" in blockers and port in blockers, blockers
    browser.shot("blocked")
    browser.driver.set_window_size(390, 1000)
    assert browser.sideways() == 0, "only the tables scroll sideways"
    browser.driver.set_window_size(1400, 1000)
    command = browser.text(".pc-command code")
    browser.click(".pc-copy")
    browser.until(lambda: browser.get("#pc-said").get_attribute("textContent") == "Copied", "copy")
    browser.open(DELETIONS)
    field = browser.get("#id_project")
    field.send_keys(Keys.CONTROL, "v")
    assert field.get_attribute("value") == command, "what is shown is copied, and nothing else"
    browser.open(DELETIONS)
    assert "Blocked" in browser.text(f"#pc-row-{identity}")
    browser.shot("deletions")

    open_deletion(browser, identity)
    browser.submit("#pc-retry")
    site.release(port)
    browser.submit("#pc-form-submit")
    site.ended(identity, "deleted")
    open_deletion(browser, identity)
    assert browser.has("#pc-no-blockers") and not browser.has("#pc-blockers")


def test_the_brake_is_on_every_page_and_a_cancel_keeps_everything(site: Site, browser: Browser) -> None:
    filled = site.fill("spared", "image", "key-manager")
    before = left(site.cloud, filled.project_id)
    browser.open("/identity/project_brake/set/")
    browser.type("id_reason", "the storage misbehaves")
    browser.submit("#pc-brake-set-submit")
    try:
        browser.open("/identity/users/")
        assert "the storage misbehaves" in browser.text("#pc-header-brake")
        made = site.api.create_deletion(filled.project_id, mode="cascade")
        wait("it is on hold", lambda: site.condition(made.id, "on_hold"), SECONDS, 1)
        open_deletion(browser, made.id)
        assert "the storage misbehaves" in browser.text("#pc-conditions")
        browser.submit("#pc-cancel")
        browser.submit("#pc-form-submit")
        site.ended(made.id, "cancelled")
    finally:
        browser.open("/identity/project_brake/lift/")
        browser.submit("#pc-brake-lift-submit")
    browser.open("/identity/users/")
    time.sleep(3)  # the header is loaded after the page
    assert not browser.has("#pc-header-brake")
    assert left(site.cloud, filled.project_id) == before


def test_force_warns_names_what_stays_and_says_why_it_is_refused(site: Site, browser: Browser) -> None:
    filled = site.fill("forced", "image")
    identity, port = site.stuck(filled)
    site.orchestrator.beyond(PATIENCE, identity)
    open_deletion(browser, identity)
    browser.click("#pc-force")
    abandoned = browser.text("#pc-abandoned")
    assert "held" in abandoned and filled.project_name in abandoned, abandoned
    assert browser.has("#pc-warning")
    browser.shot("force")

    def force() -> None:
        browser.type("id_reason", "ticket 4711")
        browser.type("id_name", filled.project_name)
        browser.submit("#pc-submit")

    site.orchestrator.without_workers()
    try:
        force()
        assert "no worker" in browser.text("#pc-form-problem").lower()
        assert site.api.get_deletion(identity).forced is None
    finally:
        site.orchestrator.start_orchestrator()
    browser.open(f"{DELETIONS}{identity}/force/")
    browser.type("id_reason", "ticket 4711")
    browser.type("id_name", "another name")
    browser.submit("#pc-submit")
    assert site.api.get_deletion(identity).forced is None, "the name has to be that of the project"
    force()
    ended = site.ended(identity, "deleted")
    assert ended.reason == "deleted_by_force" and ended.forced.reason == "ticket 4711"
    open_deletion(browser, identity, "leftovers")
    assert "held" in browser.text("#pc-leftovers")
    site.release(port)


def test_a_second_admin_approves_and_a_project_is_restored_before_anything_is_deleted(site: Site) -> None:
    second = f"second-{secrets.token_hex(2)}"
    site.cloud.admin.ensure_user(second, site.password, "admin", ("admin",))
    usual = site.orchestrator.configuration
    site.orchestrator.configuration += "\n[approval]\nresources = 1\n"
    site.orchestrator.start_orchestrator()
    try:
        gone, spared = site.fill("approved", "image"), site.fill("restored", "image")
        before = left(site.cloud, spared.project_id)
        made = [site.api.create_deletion(each.project_id, mode="cascade") for each in (gone, spared)]
        for each in made:
            wait("it waits for an approval", lambda each=each: site.condition(each.id, "approval"), SECONDS, 1)
        with site.browser() as browser:
            browser.login("admin", site.password)
            open_deletion(browser, made[0].id)
            assert not browser.has("#pc-approve"), "the requester is no second person"
            open_deletion(browser, made[1].id)
            browser.submit("#pc-restore")
            browser.submit("#pc-form-submit")
        with site.browser() as browser:
            browser.login(second, site.password)
            open_deletion(browser, made[0].id)
            browser.submit("#pc-approve")
            browser.type("id_reason", "read the plan, ticket 4712")
            browser.submit("#pc-submit")
        site.ended(made[1].id, "cancelled")
        assert left(site.cloud, spared.project_id) == before
        (approval,) = site.ended(made[0].id, "deleted").approvals
        assert (approval.user_name, approval.reason) == (second, "read the plan, ticket 4712")
    finally:
        site.orchestrator.configuration = usual
        site.orchestrator.start_orchestrator()


def test_a_deletion_gets_a_date_which_is_changed_and_a_report(site: Site, browser: Browser) -> None:
    filled = site.fill("dated", "image")
    before = left(site.cloud, filled.project_id)
    identity = dry_run(browser, filled.project_id, "cascade")
    browser.type("id_record-ticket", "CHG-4711")
    browser.type("id_record-request_reason", "the grant ended")
    date = browser.get("#id_record-not_before")
    browser.driver.execute_script("arguments[0].value = '2027-01-31T00:00'", date)
    browser.type(f"id_{identity}-typed", filled.project_name)
    assert browser.inaccessible() == []
    browser.submit("#pc-request")
    (made,) = [d for d in site.api.deletions(project_id=filled.project_id) if not d.dry_run]
    assert (made.not_before, made.ticket, made.plan_id) == ("2027-01-31T00:00:00Z", "CHG-4711", "")
    assert "CHG-4711" in browser.text("#pc-ticket") and "the grant ended" in browser.text("#pc-request-reason")
    assert "Jan" in browser.text("#pc-not-before") or "2027" in browser.text("#pc-not-before")
    browser.shot("scheduled")

    browser.submit("#pc-change")
    assert browser.inaccessible() == []
    browser.submit("#pc-form-submit")
    assert "Nothing changes" in browser.text("#pc-summary")
    browser.type("id_ticket", "CHG-4712")
    browser.submit("#pc-form-submit")
    assert site.api.get_deletion(made).ticket == "CHG-4712"
    browser.open(f"{DELETIONS}?ticket=CHG-4712")
    assert browser.has(f"#pc-row-{made.id}") and "Waits for its date" in browser.text(f"#pc-row-{made.id}")

    open_deletion(browser, made.id)
    link = browser.get("#pc-report").get_attribute("href")
    page = browser.driver.execute_async_script(
        "const done = arguments[arguments.length - 1]; fetch(arguments[0]).then(r => r.text()).then(done)", link
    )
    assert "CHG-4712" in page and "Not ended" in page, "the report says that it proves nothing yet"
    assert left(site.cloud, filled.project_id) == before
    browser.submit("#pc-cancel")
    browser.submit("#pc-form-submit")
    site.ended(made.id, "cancelled")
    assert browser.console() == []


def test_only_the_fields_of_the_chosen_mode_are_shown(site: Site, browser: Browser) -> None:
    filled = site.fill("fields", "image")
    open_request(browser, filled.project_id)
    assert browser.get("input[name=mode]:checked").get_attribute("value") == "cascade"
    services, below = browser.get("#id_services"), browser.get("#id_include_subtree")
    assert below.is_displayed() and not services.is_displayed() and not services.is_enabled()
    browser.click("input[name=mode][value=purge]")
    assert services.is_displayed() and services.is_enabled() and not below.is_displayed()
    assert not below.is_enabled(), "a field of another mode is not sent"


@pytest.mark.parametrize("width", [1400, 390])
def test_no_page_has_something_that_is_not_accessible(site: Site, browser: Browser, width: int) -> None:
    filled = site.fill("accessible")
    made = site.api.create_deletion(filled.project_id, mode="cascade", dry_run=True)
    site.ended(made.id, "planned")
    report = site.api.create_deletion(filled.project_id, mode="report")
    site.ended(report.id, "leftovers")
    scan = site.api.create_orphan_scan()
    lien = site.api.create_lien(filled.project_id, "legal", "a reason")
    paths = [
        *(f"/identity/project_{panel}/" for panel in PANELS),
        *(f"{DELETIONS}{made.id}/?tab={tab}" for tab in ("overview", "leftovers", "journal", "plan")),
        *(f"{DELETIONS}{report.id}/{page}" for page in ("", "retry/", "force/", "cancel/")),
        f"{DELETIONS}{secrets.token_hex(4)}-0000-0000-0000-000000000000/",
        f"{DELETIONS}request/?project={filled.project_id}",
        f"{DELETIONS}request/preview/?dry_run={made.id}",
        *("/identity/project_liens/create/", f"/identity/project_liens/{lien.id}/remove/"),
        *("/identity/project_waivers/create/", "/identity/project_brake/set/", "/identity/project_orphans/start/"),
        *(f"/identity/project_orphans/{scan.id}/{page}" for page in ("", "orphans/", "cancel/")),
    ]
    browser.driver.set_window_size(width, 1000)
    try:
        found = {}
        for path in paths:
            browser.open(path)
            if problems := browser.inaccessible():
                found[path] = problems
        assert found == {}
    finally:
        browser.driver.set_window_size(1400, 1000)
        site.api.delete_lien(lien)
        wait("the scan ended", lambda: site.api.get_orphan_scan(scan).finished_at, SECONDS, 1)


def test_a_member_sees_nothing(site: Site) -> None:
    filled = site.fill("member", "image")
    with site.browser() as browser:
        browser.login(filled.user_name, filled.password)
        browser.open("/identity/")
        assert browser.has(f"#tenants__row__{filled.project_id}") or filled.project_name in browser.text()
        assert "Delete with contents" not in browser.driver.page_source
        assert "Project Deletion" not in browser.driver.page_source
        for panel in PANELS:
            browser.open(f"/identity/project_{panel}/")
            assert not browser.has(".pc-page"), browser.where()
        browser.open(f"{DELETIONS}request/?project={filled.project_id}")
        assert not browser.has("#pc-request-form")
    assert not list(site.api.deletions(project_id=filled.project_id))


def test_a_domain_manager_sees_the_deletions_of_the_domain_only(site: Site) -> None:
    tag = secrets.token_hex(2)
    identity, manager = site.admin.identity, f"manager-{tag}"
    domain = identity.create_domain(name=f"division-{tag}")
    project = identity.create_project(name=f"team-{tag}", domain_id=domain.id)
    user = identity.create_user(
        name=manager, password=site.password, domain_id=domain.id, default_project_id=project.id
    )
    roles = {role.name: role for role in identity.roles()}
    identity.assign_domain_role_to_user(domain, user, roles["manager"])
    identity.assign_project_role_to_user(project, user, roles["member"])
    own = site.api.create_deletion(project.id, mode="report", dry_run=True)
    other = site.fill("elsewhere", "image")
    foreign = site.api.create_deletion(other.project_id, mode="report", dry_run=True)
    for each in (own, foreign):
        site.ended(each.id, "planned")
    with site.browser() as browser:
        browser.login(manager, site.password, domain.name)
        browser.open(f"{DELETIONS}?dry_run=also")
        table = browser.text("#pc-deletions")
        assert project.name in table and other.project_name not in table
        open_deletion(browser, foreign.id)
        assert other.project_name not in browser.text() and browser.has("#pc-unavailable")
        for panel in ("liens", "waivers", "brake", "orphans"):
            browser.open(f"/identity/project_{panel}/")
            assert not browser.has(".pc-page"), browser.where()
        browser.open(f"{DELETIONS}{own.id}/force/")
        assert not browser.has("#id_reason")
        dry_run(browser, project.id, "report")
        browser.submit("#pc-request")
        (made,) = [d for d in site.api.deletions(project_id=project.id) if not d.dry_run]
        assert made.user_name == manager


def test_the_direction_of_a_name_cannot_be_reversed(site: Site, browser: Browser) -> None:
    made = site.admin.identity.create_project(name="pay\u202egnp.exe", domain_id="default")
    try:
        run = dry_run(browser, made.id, "cascade")
        assert "pay?gnp.exe" in browser.text(f"#pc-found-{run}-name")
        assert "\u202e" not in browser.driver.page_source
    finally:
        site.admin.identity.delete_project(made)


@pytest.mark.parametrize("name", [MARKUP, ARABIC, "x" * 64])
def test_names_are_shown_as_text(site: Site, browser: Browser, name: str) -> None:
    made = site.admin.identity.create_project(name=name, domain_id="default")
    try:
        run = dry_run(browser, made.id, "cascade")
        assert name in browser.text("#pc-preview")
        browser.shot(f"name-{'markup' if '<' in name else 'long' if name.startswith('x') else 'arabic'}")
        browser.open(f"{DELETIONS}?dry_run=also")
        assert name in browser.text(f"#pc-row-{run}")
        open_deletion(browser, run)
        assert name in browser.text(".pc-page")
        site.api.create_lien(made.id, "legal", f"{name} may be needed")
        browser.open("/identity/project_liens/")
        assert f"{name} may be needed" in browser.text("#liens")
        assert browser.driver.title != "!"
        assert not browser.driver.execute_script(
            "return document.querySelector('.pc-page script, .pc-page b[onclick]')"
        )
    finally:
        for lien in list(site.api.liens(project_id=made.id)):
            site.api.delete_lien(lien)
        site.admin.identity.delete_project(made)


def test_liens_waivers_and_services_are_changed_on_their_pages(site: Site, browser: Browser) -> None:
    filled = site.fill("held", "image")
    browser.open("/identity/project_liens/create/")
    for field, value in (("project", filled.project_name), ("origin", "billing"), ("reason", "an invoice is open")):
        browser.type(f"id_{field}", value)
    browser.submit("#pc-lien-create-submit")
    assert "an invoice is open" in browser.text("#liens")
    (lien,) = site.api.liens(project_id=filled.project_id)
    identity = dry_run(browser, filled.project_id, "cascade")
    assert "an invoice is open" in browser.text(f"#pc-liens-{identity}")
    browser.open(f"/identity/project_liens/{lien.id}/remove/")
    browser.submit("#pc-lien-remove-submit")
    assert not list(site.api.liens(project_id=filled.project_id))
    browser.open("/identity/project_services/")
    services = browser.text("#services")
    assert "network" in services and "identity" in services


def test_orphans_are_found_and_adopted(site: Site, browser: Browser) -> None:
    filled = site.fill("dead", "image", "key-manager")
    site.admin.identity.delete_project(filled.project_id)
    browser.open("/identity/project_orphans/start/")
    browser.type("id_min_age", "0")
    browser.submit("#pc-scan-start-submit")
    (scan, *_) = site.api.orphan_scans(limit=1)
    wait("the scan ended", lambda: site.api.get_orphan_scan(scan).finished_at, SECONDS, 1)
    browser.open(f"/identity/project_orphans/{scan.id}/")
    assert filled.project_id in browser.text("#projects")
    browser.shot("orphans")
    browser.open(f"/identity/project_orphans/{scan.id}/projects/{filled.project_id}/adopt/")
    browser.submit("#pc-adopt-dry-run-submit")
    browser.get("#pc-adopt-submit", SECONDS)
    browser.type("id_project_id", filled.project_id)
    browser.submit("#pc-adopt-submit")
    wait("its images are gone", lambda: not list(site.admin.image.images(owner=filled.project_id)), SECONDS, 2)


def test_a_report_can_be_requested_without_javascript(site: Site) -> None:
    filled = site.fill("plain", "image")
    with site.browser(javascript=False) as browser:
        browser.login("admin", site.password)
        browser.open(f"{DELETIONS}request/?project={filled.project_id}")
        browser.click("input[name=mode][value=report]")
        browser.submit("#pc-show")
        preview = browser.driver.current_url.removeprefix(browser.url)

        def ended() -> bool:
            browser.open(preview)
            return browser.has("#pc-confirm-form")

        browser.until(ended, "end of the dry run", SECONDS)
        browser.submit("#pc-request")
        (made,) = [d for d in site.api.deletions(project_id=filled.project_id) if not d.dry_run]
        for tab in ("overview", "leftovers", "journal"):
            open_deletion(browser, made.id, tab)
            assert browser.has(".pc-page")


def test_an_api_that_is_away_is_said_on_every_page(site: Site, browser: Browser) -> None:
    site.cloud.children.end("orchestrator-out")
    try:
        for panel in PANELS:
            began = time.monotonic()
            browser.open(f"/identity/project_{panel}/")
            assert "no answer from" in browser.text(".pc-page"), panel
            assert time.monotonic() - began < 30
        browser.shot("away")
        browser.open("/identity/users/")
        assert browser.has("#users"), "the other pages of Horizon work"
    finally:
        site.orchestrator.start_orchestrator()
    browser.open(DELETIONS)
    assert browser.has("#pc-deletions")
