"""The client for programs against the real application."""

import threading
import wsgiref.simple_server

import openstack
import pytest
from keystoneauth1.token_endpoint import Token
from openstack import exceptions

from cleanup_orchestrator import sdk
from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.sdk import Deletion, Event
from tests.functional.test_api import keystone as ks


class Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def cleanup(site):
    with wsgiref.simple_server.make_server("127.0.0.1", 0, site.app, handler_class=Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        login = {"auth_type": "admin_token", "auth": {"endpoint": endpoint, "token": ks.ADMIN}}
        nothing_else = {"load_yaml_config": False, "load_envvars": False}
        with openstack.connect(**login, **nothing_else, project_cleanup_endpoint_override=endpoint) as connection:
            # openstacksdk 4.0 reads the token of its configuration as "None".
            connection.session.auth = Token(endpoint, ks.ADMIN)
            connection.add_service(sdk.DESCRIPTION)
            yield connection.project_cleanup
        server.shutdown()
        thread.join()


def test_request_read_and_cancel(cleanup):
    made = cleanup.create_deletion("p1", mode="cascade")
    assert isinstance(made, Deletion) and (made.status, made.mode, made.progress.found) == ("accepted", "cascade", 0)
    assert made["id"] == made.id and set(made) <= set(made.to_dict())
    found = cleanup.find_deletion("p1")
    assert (found.id, cleanup.find_deletion(made).id) == (made.id, made.id)
    assert [each.id for each in cleanup.deletions(project_id="p1", status=["live"], dry_run=False)] == [made.id]
    events = list(cleanup.events(made))
    assert {type(each) for each in events} == {Event} and events[0].type == "deletion.accepted"
    assert list(cleanup.leftovers(made)) == []
    assert cleanup.cancel_deletion(made).status == Status.CANCELLING


def test_errors(cleanup):
    with pytest.raises(exceptions.NotFoundException) as missing:
        cleanup.get_deletion("0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11")
    assert (missing.value.code, missing.value.status_code) == ("deletion_not_found", 404)
    with pytest.raises(exceptions.BadRequestException):
        cleanup.create_deletion("p1", mode="nonsense")
    deletion = cleanup.create_deletion("p1", mode="cascade")
    with pytest.raises(exceptions.ConflictException) as conflict:
        cleanup.create_deletion("p1", mode="report")
    assert conflict.value.deletion_id == deletion.id


def test_a_lien_and_the_brake(cleanup):
    lien = cleanup.create_lien("p1", "billing", "open invoice")
    assert [(each.id, each.state) for each in cleanup.liens(project_id="p1")] == [(lien.id, "in_force")]
    with pytest.raises(exceptions.ConflictException) as refused:
        cleanup.create_deletion("p1", mode="cascade")
    assert refused.value.body["liens"][0]["id"] == lien.id
    cleanup.delete_lien(lien)
    assert cleanup.set_brake("storage").on is True
    cleanup.lift_brake()
    assert cleanup.get_brake().on is False
