"""Which resources the leftovers of another type need, by what the services say."""

import types

import pytest
from keystoneauth1.adapter import Adapter

from cleanup_orchestrator.plugins import registry
from cleanup_orchestrator.plugins.base import ProjectDefinition, Resource, Rest, exceptions, linked, refused_in_use

US = ProjectDefinition("us", "Us", "default", "R1")
INSTALLED = registry.load()
IMAGE, OTHER = "6a1b8f5e-0000-4000-8000-00000000000a", "6a1b8f5e-0000-4000-8000-00000000000b"
KEY = "0c3ffb40-1111-4111-8111-111111111111"


class Service(Adapter):
    """Answers GET by path; what is not there is a 404."""

    def __init__(self, **bodies):
        self.bodies, self.asked = {f"/{path.replace('__', '/')}": body for path, body in bodies.items()}, []

    def request(self, path, *_, microversion=None, **__):
        self.asked.append((path, microversion))
        if path not in self.bodies:
            raise exceptions.NotFoundException(path)
        body = self.bodies[path]
        if isinstance(body, Exception):
            raise body
        return types.SimpleNamespace(status_code=200, content=b"{}", json=lambda: body)


def cloud(bodies, service="image"):
    made = Service()
    made.bodies = bodies
    return types.SimpleNamespace(**{service.replace("-", "_"): made})


def with_store(images, account=(), container=()):
    """Return a connection to Glance, and to Swift with these headers; ``None``: there is no such container."""

    def request(url, method):
        assert method == "HEAD"
        headers = account if url.endswith("/AUTH_us") else container
        return types.SimpleNamespace(status_code=404 if headers is None else 204, headers=dict(headers or ()))

    made = cloud(images)
    made.session = types.SimpleNamespace(get_project_id=lambda: "us")
    made.object_store = types.SimpleNamespace(request=request, get_endpoint=lambda: "http://swift/v1/AUTH_us")
    return made


def needs(service, type_, other, connection, left):
    known = INSTALLED.needed_by(INSTALLED.services[service], INSTALLED.find(service, type_))
    return known[other](connection, US, left)


def resource(id_, **row):
    return Resource(id_, "", "us", {"id": id_, **row})


def test_a_rule_of_refusals_names_nothing():
    assert refused_in_use(None, US, {"p"})(resource("n")) is None


def test_a_row_that_names_a_leftover_is_needed_by_it():
    rule = linked()(None, US, {"s-1", "s-2"})
    assert rule(resource("p", device_id="s-2")) == "s-2"
    assert rule(resource("v", attachments=[{"server_id": "S1"}])) == "s-1", "hyphens and case do not matter"
    assert rule(resource("p", device_id="")) is None


@pytest.mark.parametrize(
    ("image", "needed"),
    [
        ({"cinder_encryption_key_id": KEY}, True),
        ({"img_signature_certificate_uuid": KEY.upper().replace("-", "")}, True),
        ({"locations": [{"url": f"http://barbican/v1/secrets/{KEY}"}]}, True),
        ({"name": "plain"}, False),
    ],
)
@pytest.mark.parametrize("type_", ["secret", "container"])
def test_an_image_needs_the_secrets_that_it_names(type_, image, needed):
    connection = cloud({f"/images/{IMAGE}": {"id": IMAGE, **image}})
    rule = needs("key-manager", type_, "image.image", connection, {IMAGE})
    assert rule(resource(KEY)) == (IMAGE if needed else None)


def test_a_leftover_that_its_service_does_not_know_may_need_anything_and_an_error_is_raised():
    rule = linked(Rest("image", "/images/{id}"))
    assert rule(cloud({}), US, {IMAGE})(resource(KEY)) == IMAGE
    for other in ("image.image", "block-storage.backup"):
        unknown = needs("object-store", "container", other, cloud({}, other.split(".")[0]), {IMAGE})
        assert unknown(resource("plain")) == IMAGE
    with pytest.raises(exceptions.HttpException):
        rule(cloud({f"/images/{IMAGE}": exceptions.HttpException("503")}), US, {IMAGE})


@pytest.mark.parametrize(
    ("container", "image", "needed"),
    [
        (f"glance_{IMAGE}", {}, True),
        (f"images-of-ours_{IMAGE}", {}, True),
        ("glance", {}, False),
        (f"glance_{OTHER}", {}, False),
        ("my data", {"locations": [{"url": "swift+https://store/my%20data/object"}]}, True),
        ("my data", {"direct_url": "swift+https://store/my%20data/object"}, True),
        ("data", {"locations": [{"url": "swift+https://store/my%20data/object"}]}, False),
    ],
)
def test_an_image_needs_the_container_that_has_its_data(container, image, needed):
    connection = with_store({f"/images/{IMAGE}": {"id": IMAGE, **image}})
    rule = needs("object-store", "container", "image.image", connection, {IMAGE})
    assert rule(resource(container)) == (IMAGE if needed else None)


@pytest.mark.parametrize(
    ("account", "container", "needed"),
    [
        ({}, {}, False),
        ({}, {"X-Container-Read": "another:*"}, False),
        ({}, {"X-Container-Read": ".r:*,.rlistings"}, True),
        ({}, {"X-Container-Meta-Temp-URL-Key-2": "key"}, True),
        ({"X-Account-Meta-Temp-URL-Key": "key"}, {}, True),
        ({}, None, False),
    ],
)
def test_an_image_may_need_each_container_that_glance_can_read_by_a_url(account, container, needed):
    """Glance does not show the URL that a user gave it."""
    connection = with_store({f"/images/{IMAGE}": {"id": IMAGE}}, account, container)
    rule = needs("object-store", "container", "image.image", connection, {IMAGE})
    assert rule(resource("data")) == (IMAGE if needed else None)
    assert needs("object-store", "container", "image.image", connection, set())(resource("data")) is None


@pytest.mark.parametrize(("shown", "needed"), [("volumebackups", True), ("elsewhere", False), (None, True), ("", True)])
def test_a_backup_needs_its_container_and_any_if_it_shows_none(shown, needed):
    connection = cloud({"/backups/b": {"backup": {"id": "b", "container": shown}}}, "block-storage")
    rule = needs("object-store", "container", "block-storage.backup", connection, {"b"})
    assert rule(resource("volumebackups")) == ("b" if needed else None)


def test_a_network_needs_its_subnets():
    rule = needs("network", "subnet", "network.network", None, {KEY})
    assert rule(resource(OTHER, network_id=KEY)) == KEY
    assert rule(resource(OTHER, network_id=IMAGE)) is None, "it is on another project's network"


def test_a_group_needs_the_address_groups_of_its_rules():
    rows = [{"remote_address_group_id": KEY}]
    connection = cloud({"/security-groups/g": {"security_group": {"id": "g", "security_group_rules": rows}}}, "network")
    rule = needs("network", "address_group", "network.security_group", connection, {"g"})
    assert rule(resource(KEY)) == "g" and rule(resource(OTHER)) is None


def test_a_server_needs_the_images_of_its_kernel_and_its_ramdisk_which_an_early_microversion_does_not_show():
    shown = {"server": {"id": "s", "image": {"id": IMAGE}, "OS-EXT-SRV-ATTR:kernel_id": KEY}}
    connection = cloud({"/servers/s": shown}, "compute")
    rule = needs("image", "image", "compute.server", connection, {"s"})
    assert rule(resource(KEY)) == "s" and rule(resource(OTHER)) is None
    assert connection.compute.asked == [("/servers/s", "2.3")]


def test_a_server_needs_its_volumes_its_image_its_ports_and_their_trunks():
    shown = {"server": {"id": "s", "image": {"id": IMAGE}, "os-extended-volumes:volumes_attached": [{"id": KEY}]}}
    connection = cloud({"/servers/s": shown}, "compute")
    assert needs("block-storage", "volume", "compute.server", connection, {"s"})(resource(KEY)) == "s"
    assert needs("block-storage", "volume", "compute.server", connection, {"s"})(resource(OTHER)) is None
    assert needs("image", "image", "compute.server", connection, {"s"})(resource(IMAGE)) == "s"
    assert needs("network", "port", "compute.server", connection, {"s"})(resource(OTHER, device_id="s")) == "s"
    rows = [{"id": OTHER, "device_id": "s"}, {"id": KEY, "device_id": "another"}]
    network = types.SimpleNamespace(ports=lambda device_id: rows)
    trunk = needs("network", "trunk", "compute.server", types.SimpleNamespace(network=network), {"s"})
    assert trunk(resource("t", port_id=OTHER)) == "s" and trunk(resource("t", port_id=KEY)) is None
