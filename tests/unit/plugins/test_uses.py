"""What other projects use of a resource keeps it: each declared use, found in the answers of its service."""

import dataclasses

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.errors import UnreadUse
from cleanup_orchestrator.plugins import (
    block_storage,
    compute,
    conformance,
    database,
    image,
    load_balancer,
    network,
    orchestration,
    registry,
)
from cleanup_orchestrator.plugins.base import Composition, Resource, ResourceType, Rest, Service, Use, Verdict
from cleanup_orchestrator.plugins.orchestration.contents import contents_of
from cleanup_orchestrator.worker.sweep import uses
from cleanup_orchestrator.worker.sweep.context import OtherType, SweepContext
from cleanup_orchestrator.worker.sweep.exclusions import KeepMarks
from tests.support.sweeps import before_delete, foreseen
from tests.unit.answers import connection, project

OURS, THEIRS = "p", "them"
PROJECT = project(OURS)
INSTALLED = registry.load()


def type_of(plugin, name):
    return INSTALLED.find(plugin.SERVICE.service_type, name)


def answers(rows, **special):
    """A service with these rows by path; a list answers those that the query filters, if they have the attributes."""

    def answer(method, path, query, _body):
        assert method == "GET", (method, path)
        if path in special.get("errors", ()):
            return 503, {}
        if path not in rows:
            return 404, {}
        found = rows[path]
        if isinstance(found, dict):
            return 200, found
        key = special.get("key") or path.strip("/").split("/")[0].replace("-", "_")
        if query.get("marker") or query.get("offset"):
            return 200, {key: []}
        matches = [row for row in found if all(row.get(name) in (value, None) for name, value in query.items())]
        return 200, {key: matches}

    return answer


def named(verdict):
    """The types and owners that a verdict names, and its reason."""
    return verdict and (verdict.reason, [(b["type"], b["owner"]) for b in verdict.blocked_by])


# ------------------------------------------------------------------------------------------------------------- images
IMAGE = Resource("i", "img", OURS, {"id": "i", "visibility": "private", "disk_format": "qcow2"})


def nova(*owners):
    rows = [{"id": f"s{n}", "tenant_id": owner, "name": "web"} for n, owner in enumerate(owners)]

    def answer(_method, path, query, _body):
        assert (path, query["all_tenants"]) == ("/servers/detail", "1")
        return 200, {"servers": rows if query.get("image") == "i" else []}

    return answer


def glance(*images):
    def answer(_method, path, query, _body):
        if path.endswith("/members"):
            return 200, {"members": []}
        wanted = {name: value for name, value in query.items() if name not in ("visibility", "limit", "os_hidden")}
        assert query["visibility"] == "all"
        found = [row for row in images if all(row.get(name) == value for name, value in wanted.items())]
        hidden = query["os_hidden"] == "true"
        return 200, {"images": [row for row in found if row.get("os_hidden", False) is hidden]}

    return answer


@pytest.mark.parametrize(
    ("visibility", "option", "asked"),
    [
        ("private", "", True),
        ("shared", "", True),
        ("public", "", True),
        ("public", "delete_public_images", False),
        ("community", "delete_community_images", False),
        ("shared", "delete_shared_images", False),
        ("private", "delete_public_images", True),
    ],
)
@pytest.mark.parametrize(("owners", "found"), [([THEIRS], True), ([OURS], False), ([OURS, THEIRS], True), ([], False)])
def test_an_image_of_a_server_of_another_project_stays(visibility, option, asked, owners, found):
    one = dataclasses.replace(IMAGE, data={**IMAGE.data, "visibility": visibility})
    cloud = connection(image=glance(), compute=nova(*owners))
    verdict = before_delete(type_of(image, "image"), cloud, project(OURS, **{option: True} if option else {}), one)
    assert named(verdict) == ((Reason.FOREIGN, [("compute.server", THEIRS)]) if found and asked else None)


def test_a_nova_that_ignores_the_filter_does_not_keep_each_image():
    rows = [{"id": "s", "tenant_id": THEIRS, "image": {"id": "another"}}]
    cloud = connection(image=glance(), compute=lambda *_: (200, {"servers": rows}))
    assert before_delete(type_of(image, "image"), cloud, PROJECT, IMAGE) is None


def test_without_a_nova_no_server_was_booted_from_an_image():
    assert before_delete(type_of(image, "image"), connection(image=glance()), PROJECT, IMAGE) is None


def test_an_image_stays_while_nova_does_not_answer():
    cloud = connection(image=glance(), compute=lambda *_: (503, {}))
    verdict = before_delete(type_of(image, "image"), cloud, PROJECT, IMAGE)
    assert "whether other projects use it could not be read" in verdict.message


@pytest.mark.parametrize("attribute", ["kernel_id", "ramdisk_id"])
@pytest.mark.parametrize(
    ("owner", "format_", "hidden", "stays"),
    [
        (THEIRS, "aki", False, True),
        (THEIRS, "ari", False, True),
        (THEIRS, "raw", False, True),
        (THEIRS, "aki", True, True),
        (OURS, "aki", False, False),
        (THEIRS, "qcow2", False, False),
    ],
)
def test_the_kernel_of_an_image_of_another_project_stays(attribute, owner, format_, hidden, stays):
    one = dataclasses.replace(IMAGE, data={**IMAGE.data, "disk_format": format_})
    cloud = connection(image=glance({"id": "other", "owner": owner, "os_hidden": hidden, attribute: "i"}))
    verdict = before_delete(type_of(image, "image"), cloud, PROJECT, one)
    assert named(verdict) == ((Reason.FOREIGN, [("image.image", THEIRS)]) if stays else None)


@pytest.mark.parametrize(("owner", "names", "stays"), [(THEIRS, "i", True), (OURS, "i", False), (THEIRS, "x", False)])
def test_the_image_of_a_cluster_template_of_another_project_stays(owner, names, stays):
    rows = [{"uuid": "t", "project_id": owner, "image_id": names, "name": "k8s"}]
    magnum = {"container_infrastructure_management": lambda *_: (200, {"clustertemplates": rows})}
    cloud = connection(image=glance(), **magnum)
    cloud.config.get_session_endpoint = lambda name: "x" if name in ("image", TEMPLATES.partition(".")[0]) else None
    verdict = before_delete(type_of(image, "image"), cloud, PROJECT, IMAGE)
    assert named(verdict) == ((Reason.FOREIGN, [(TEMPLATES, THEIRS)]) if stays else None)


TEMPLATES = "container-infrastructure-management.cluster_template"

# ------------------------------------------------------------------------------------------------------------ volumes


def volume_with(name="image-i", **metadata):
    return Resource("v", name, OURS, {"id": "v", "metadata": metadata})


@pytest.mark.parametrize(
    ("shown", "members", "expected"),
    [
        ({"owner": THEIRS, "visibility": "private"}, [], Reason.FOREIGN),
        ({"owner": THEIRS, "visibility": "private", "locations": [{"url": "cinder://store/v"}]}, [], Reason.FOREIGN),
        ({"owner": THEIRS, "visibility": "private", "direct_url": "cinder://store/v"}, [], Reason.FOREIGN),
        # Any member can write the metadata: an image that Glance shows to be elsewhere does not use the volume.
        ({"owner": THEIRS, "visibility": "public", "locations": [{"url": "rbd://a/b"}]}, [], None),
        ({"owner": OURS, "visibility": "private"}, [], None),
        ({"owner": OURS, "visibility": "shared"}, [], None),
        ({"owner": OURS, "visibility": "shared"}, [(OURS, "accepted")], None),
        ({"owner": OURS, "visibility": "shared"}, [(THEIRS, "rejected")], None),
        ({"owner": OURS, "visibility": "shared"}, [(THEIRS, "pending")], Reason.PROTECTED),
        ({"owner": OURS, "visibility": "public"}, [], Reason.PROTECTED),
        ({"owner": OURS, "visibility": "community"}, [], Reason.PROTECTED),
        (None, [], None),
    ],
    ids=str,
)
def test_the_volume_that_has_the_data_of_an_image_stays_if_others_use_the_image(shown, members, expected):
    def answer(_method, path, _query, _body):
        if path.endswith("/members"):
            return 200, {"members": [{"member_id": who, "status": status} for who, status in members]}
        assert path == "/images/i"
        return (200, {"id": "i", "name": "img", **shown}) if shown else (404, {})

    verdict = before_delete(
        type_of(block_storage, "volume"), connection(image=answer), PROJECT, volume_with(glance_image_id="i")
    )
    assert (verdict and verdict.reason) == expected
    assert expected is None or [b["type"] for b in verdict.blocked_by] == ["image.image"]


@pytest.mark.parametrize(
    "values",
    [
        {"purpose": "data"},
        {"name": "vol", "glance_image_id": "i"},
        {"name": "image-j", "glance_image_id": "i"},
        {"name": "image-.", "glance_image_id": "."},
        {"name": "image-a/../b", "glance_image_id": "a/../b"},
    ],
    ids=["metadata of a user", "named by a user", "named after another image", "no image", "no path"],
)
def test_a_volume_without_the_metadata_and_the_name_of_image_data_asks_nothing(values):
    cloud = connection(image=lambda *_: (500, {}))
    assert before_delete(type_of(block_storage, "volume"), cloud, PROJECT, volume_with(**values)) is None
    assert cloud.image.asked == []


@pytest.mark.parametrize(("status", "stays"), [(503, True), (404, False), (400, False)])
def test_a_volume_stays_while_glance_does_not_answer(status, stays):
    cloud = connection(image=lambda *_: (status, {}))
    verdict = before_delete(type_of(block_storage, "volume"), cloud, PROJECT, volume_with(glance_image_id="i"))
    assert bool(verdict) is stays


@pytest.mark.parametrize(("owner", "found"), [(OURS, None), (THEIRS, (Reason.FOREIGN, [("compute.server", THEIRS)]))])
def test_a_plan_names_the_server_of_another_project_that_a_volume_is_attached_to(owner, found):
    one = Resource("v", "vol", OURS, {"id": "v", "attachments": [{"server_id": "s"}, {"server_id": None}]})
    cloud = connection(compute=lambda *_: (200, {"server": {"id": "s", "tenant_id": owner}}))
    assert named(foreseen(type_of(block_storage, "volume"), cloud, PROJECT, one)) == found


# -------------------------------------------------------------------------------------------------- servers and groups


@pytest.mark.parametrize(
    ("newest", "owner", "stays"), [("2.84", THEIRS, True), ("2.84", OURS, False), ("2.85", THEIRS, False)]
)
def test_an_old_nova_would_delete_the_volume_of_another_project_with_a_server(monkeypatch, newest, owner, stays):
    """A newer one can be told to keep it, which the delete does first."""
    monkeypatch.setattr(compute.servers, "knows_microversion", lambda _adapter, version: newest >= version)
    row = {"id": "s", "os-extended-volumes:volumes_attached": [{"id": "v", "delete_on_termination": True}]}
    shown = {"volume": {"id": "v", "os-vol-tenant-attr:tenant_id": owner}}
    cloud = connection(compute=lambda *_: (500, {}), block_storage=lambda *_: (200, shown))
    cloud.config.get_session_endpoint = lambda name: "x" if name == "block-storage" else None
    verdict = before_delete(type_of(compute, "server"), cloud, PROJECT, Resource("s", "web", OURS, row))
    assert named(verdict) == ((Reason.FOREIGN, [("block-storage.volume", THEIRS)]) if stays else None)


@pytest.mark.parametrize(
    ("members", "found"),
    [([], None), ([OURS], None), ([THEIRS], [("compute.server", THEIRS)]), ([None], None),
     ([OURS, THEIRS], [("compute.server", THEIRS)])],
)  # fmt: skip
def test_a_server_group_with_a_server_of_another_project_stays(members, found):
    """``None``: the server is gone."""
    servers = {f"/servers/m{n}": {"server": {"id": f"m{n}", "tenant_id": who}} for n, who in enumerate(members) if who}
    cloud = connection(
        compute=lambda _method, path, *_: (200, servers[path]) if path in servers else (404, {"itemNotFound": {}})
    )
    group = Resource("g", "", OURS, {"id": "g", "members": [f"m{n}" for n in range(len(members))]})
    verdict = before_delete(type_of(compute, "server_group"), cloud, PROJECT, group)
    assert named(verdict) == (found and (Reason.FOREIGN, found))


def neutron(ports=(), addresses=(), networks=()):
    def answer(_method, path, query, _body):
        rows = {"ports": ports, "floatingips": addresses, "networks": networks, "routers": (), "subnets": ()}
        key = path.strip("/")
        return 200, {key: list(rows[key])}

    return answer


@pytest.mark.parametrize(("owner", "stays"), [(OURS, False), (THEIRS, True)])
@pytest.mark.parametrize(
    ("plugin", "name", "row", "port"),
    [
        (compute, "server", {"id": "one"}, {"device_id": "one"}),
        (load_balancer, "load_balancer", {"vip_port_id": "port"}, {}),
        (load_balancer, "load_balancer", {"additional_vips": [{"port_id": "port"}]}, {}),
    ],
    ids=["server", "VIP", "additional VIP"],
)
def test_what_goes_with_a_port_that_has_an_address_of_another_project_stays(plugin, name, row, port, owner, stays):
    ports = [{"id": "port", "network_id": "n", "project_id": OURS, "fixed_ips": [], **port}]
    addresses = [{"id": "f", "port_id": "port", "project_id": owner, "floating_ip_address": "192.0.2.1"}]
    cloud = connection(network=neutron(ports, addresses), compute=lambda *_: (500, {}))
    cloud.network.extensions = lambda: [{"alias": "router"}]
    verdict = before_delete(type_of(plugin, name), cloud, PROJECT, Resource("one", "", OURS, row))
    assert named(verdict) == ((Reason.FOREIGN, [("network.floating_ip", THEIRS)]) if stays else None)


@pytest.mark.parametrize(
    ("port", "stays"),
    [
        ({"project_id": THEIRS}, True),
        ({"project_id": THEIRS, "device_owner": "compute:nova"}, True),
        ({"project_id": THEIRS, "device_id": "another"}, False),
        ({"project_id": OURS}, False),
        ({"project_id": ""}, False),
        ({"project_id": "ironic", "device_owner": "baremetal:none"}, False),
        ({"project_id": "trove", "name": "trove-1", "device_owner": "compute:nova"}, False),
        ({"project_id": THEIRS, "name": "trove-1"}, True),
    ],
    ids=str,
)
def test_a_server_that_a_port_of_another_project_names_stays(port, stays):
    """Nova deletes the port with the server: its token is an admin's."""
    port = {"id": "port", "network_id": "n", "device_id": "one", "fixed_ips": [], **port}
    cloud = connection(network=neutron([port]), compute=lambda *_: (404, {}))
    cloud.network.extensions = lambda: [{"alias": "router"}]
    verdict = before_delete(type_of(compute, "server"), cloud, PROJECT, Resource("one", "", OURS, {"id": "one"}))
    assert named(verdict) == ((Reason.FOREIGN, [("network.port", THEIRS)]) if stays else None)


@pytest.mark.parametrize("owner", [OURS, THEIRS])
@pytest.mark.parametrize(
    ("kind", "collection", "type_"),
    [("network", "networks", "network.network"), ("subnetpool", "subnetpools", "network.subnet_pool"),
     ("qos_policy", "policies", "network.qos_policy"), ("another", "others", None)],
)  # fmt: skip
def test_a_grant_of_an_object_of_another_project_stays(kind, collection, type_, owner):
    rows = {collection: [{"id": "o", "project_id": owner}, {"id": "x", "project_id": THEIRS}]}
    cloud = connection(network=lambda *_: (200, rows))
    grant = Resource("g", "", OURS, {"object_type": kind, "object_id": "o", "target_project_id": "q"})
    verdict = before_delete(type_of(network, "rbac_policy"), cloud, PROJECT, grant)
    assert named(verdict) == ((Reason.FOREIGN, [(type_, THEIRS)]) if type_ and owner == THEIRS else None)


# ---------------------------------------------------------------------------------------------------- databases


@pytest.mark.parametrize(("owner", "parent", "stays"), [(THEIRS, "b", True), (OURS, "b", False), (THEIRS, "x", False)])
def test_a_backup_with_an_increment_of_another_project_stays(owner, parent, stays):
    rows = [{"id": "inc", "parent_id": parent, "project_id": owner, "name": "n"}]
    cloud = connection(database=lambda *_: (200, {"backups": rows}))
    verdict = before_delete(type_of(database, "backup"), cloud, PROJECT, Resource("b", "", OURS, {}))
    assert named(verdict) == ((Reason.FOREIGN, [("database.backup", THEIRS)]) if stays else None)


@pytest.mark.parametrize("loop", [False, True], ids=["a chain", "a cycle"])
def test_a_backup_whose_increment_has_an_increment_of_another_project_stays(loop):
    rows = [
        {"id": "b", "parent_id": "theirs" if loop else None, "project_id": OURS, "name": "b"},
        {"id": "ours", "parent_id": "b", "project_id": OURS, "name": "ours"},
        {"id": "theirs", "parent_id": "ours", "project_id": THEIRS, "name": "theirs"},
    ]
    cloud = connection(database=lambda *_: (200, {"backups": rows}))
    verdict = before_delete(type_of(database, "backup"), cloud, PROJECT, Resource("b", "", OURS, {}))
    assert named(verdict) == (Reason.FOREIGN, [("database.backup", THEIRS)])


# ------------------------------------------------------------------------------------------------------------- stacks


def heat(resources, environment=()):
    def answer(_method, path, query, _body):
        if path.endswith("/environment"):
            return 200, {"resource_registry": dict(environment)}
        assert query["nested_depth"] == 100
        rows = [
            {"resource_type": type_, "physical_resource_id": id_, "resource_name": "r", "links": links}
            for type_, id_, *links in resources
        ]
        return 200, {"resources": rows}

    return answer


STACK = Resource("st", "name of it", OURS, {"id": "st"})


@pytest.mark.parametrize(
    ("resource", "environment", "expected"),
    [
        (("OS::Neutron::Port", "a"), {}, [("network.port", "a")]),
        (("OS::Neutron::RouterInterface", "r:subnet_id=s"), {}, [("network.router", "r")]),
        (("OS::Neutron::RouterGateway", "r:n"), {}, [("network.router", "r")]),
        (("OS::Barbican::Secret", "http://h/v1/secrets/k"), {}, [("key-manager.secret", "k")]),
        (("OS::Heat::Value", "v"), {}, []),
        (("OS::Neutron::Port", ""), {}, []),
        (("My::Thing", "a"), {"My::Thing": "OS::Neutron::Port"}, [("network.port", "a")]),
        (
            ("My::Thing", "a"),
            {"My::Thing": "Your::Thing", "Your::Thing": "OS::Neutron::Net"},
            [("network.network", "a")],
        ),
        (("My::Port", "a"), {"My::*": "OS::Neutron::*"}, [("network.port", "a")]),
        (("My::Port", "a"), {"resources": {"r": {"My::Port": "OS::Neutron::Port"}}}, [("network.port", "a")]),
        (("OS::Neutron::Port", "a"), {"OS::Neutron::Port": "OS::Heat::Value"}, [("network.port", "a")]),
        (
            ("OS::Neutron::Port", "a"),
            {"resources": {"no such": {"OS::Neutron::Port": "OS::Heat::None"}}},
            [("network.port", "a")],
        ),
        (
            ("My::Port", "a"),
            {"My::Port": "OS::Neutron::Port", "resources": {"no such": {"My::Port": "OS::Heat::None"}}},
            [("network.port", "a")],
        ),
        (("A", "a"), {"A": "B", "B": "A"}, [("", "a")]),
        (("OS::Octavia::Listener", "l"), {}, [("load-balancer.", "l")]),
        (("My::Bucket", "b"), {"My::Bucket": "OS::Swift::Container"}, [("object-store.", "b")]),
        (("OS::Nova::KeyPair", "k"), {}, []),
        (("OS::Heat::SoftwareConfig", "c"), {}, [("orchestration.software_config", "c")]),
        (("OS::Neutron::Port", "a"), {"resources": {"x": {"OS::*": "OS::X*"}}}, [("network.port", "a")]),
        (("OS::Neutron::FloatingIPAssociation", "x"), {}, [("network.floating_ip", "f")]),
        (("OS::Zun::Container", "c"), {}, [("application-container.container", "c")]),
        # A user chooses the names of containers. No path leads to these.
        *(
            (
                ("OS::Swift::Container", name),
                {"resources": {"x": {"OS::Swift::*": "OS::Cinder::Volume"}}},
                [("object-store.", name)],
            )
            for name in (".", "..", "?a", "a/..", "{row}")
        ),
    ],
    ids=str,
)
def test_what_a_stack_contains_is_read_from_heat(resource, environment, expected):
    cloud = connection(
        orchestration=heat([resource], environment), network=lambda *_: (200, {"floatingips": [{"id": "f"}]})
    )
    assert list(contents_of(cloud, PROJECT, STACK)) == expected
    assert cloud.orchestration.writes() == []


@pytest.mark.parametrize(("rel", "expected"), [("nested", []), ("stack", [("", "n")])])
def test_a_stack_in_a_stack_is_no_unknown_resource(rel, expected):
    cloud = connection(orchestration=heat([("file:///x.yaml", "n", {"rel": rel})]))
    assert list(contents_of(cloud, PROJECT, STACK)) == expected


def test_with_too_many_names_for_a_type_its_resource_may_be_of_any():
    """A user writes the names. Were it an error, the stack could never be deleted."""
    names = {"resources": {str(number): {"My::*": f"{number}*"} for number in range(101)}}
    ips = {"floatingips": [{"id": "f"}]}
    cloud = connection(orchestration=heat([("My::Thing", "a")], names), network=lambda *_: (200, ips))
    found = list(contents_of(cloud, PROJECT, STACK))
    assert {("network.port", "a"), ("compute.server", "a"), ("network.floating_ip", "f")} < set(found)
    assert len(found) == len(set(found)) > 25


def test_a_stack_of_a_project_that_is_gone_is_abandoned_with_what_it_contains():
    cloud = connection(orchestration=lambda *_: (500, {}))
    assert list(contents_of(cloud, dataclasses.replace(PROJECT, gone=True), STACK)) == []


def whole(**declared):
    """A sweep of a type that contains ports ``a`` and ``b`` of another type."""
    inside = {"used_by": (), **declared}
    marked = {"tags": ["keep"], "metadata": {"retention": "legal"}}
    rows = {f"/things/{id_}": {"id": id_, "project_id": owner, **marked} for id_, owner in (("a", OURS), ("b", THEIRS))}
    cloud = connection(network=answers(rows))
    other = ResourceType("thing", list=lambda *_: [], delete=None, show=Rest("network", "/things/{id}"), **inside)
    type_ = ResourceType(
        "stack",
        list=lambda *_: [],
        delete=None,
        composition=Composition(contains=lambda *_: [(f"network.{n}", i) for n, i in ASKED]),
    )
    known = {"network.thing": OtherType("network.thing", other, cloud, PROJECT)}
    return SweepContext(type_, cloud, PROJECT, name="orchestration.stack", find_type=known.get)


ASKED = [("thing", "a"), ("thing", "b"), ("thing", "gone"), ("unknown", "x")]


def found(reason):
    return lambda _connection, _project, some: {one.id: Verdict(reason, "others use it") for one in some}


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({}, None),
        ({"used_by": (Use(("x.y",), "harms", found(Reason.FOREIGN)),)}, Reason.FOREIGN),
        ({"used_by": (Use(("x.y",), "harms", foresee=found(Reason.FOREIGN)),)}, Reason.FOREIGN),
        ({"used_by": (Use(("x.y",), "harms", found(Reason.IN_USE)),)}, None),
        ({"used_by": (Use(("x.y",), "is refused"),)}, None),
        ({"protect": (lambda *_: "it is public",)}, Reason.PROTECTED),
        ({"protect": (lambda *_: None,)}, None),
    ],
)
@pytest.mark.parametrize("ask", [uses.before_delete, uses.foreseen])
def test_what_others_use_of_the_contents_keeps_the_whole(declared, expected, ask):
    verdict = ask(whole(**declared), [STACK]).get("st")
    assert (verdict and verdict.reason) == expected
    assert expected is None or verdict.message.startswith("it contains network.thing a: ")


@pytest.mark.parametrize("name", ["whole", "itself"])
def test_a_use_that_takes_many_calls_is_left_out_of_plans_alone(name):
    """Also of what is deleted with a resource: a stack with an image that another project has booted from stays."""
    many = (Use(("x.y",), "harms", found(Reason.FOREIGN), planned=False),)
    context = whole(used_by=many)
    if name == "itself":
        context = dataclasses.replace(
            context, type=dataclasses.replace(context.type, used_by=many, composition=Composition(contains=None))
        )
    assert uses.foreseen(context, [STACK]) == {}
    assert uses.before_delete(context, [STACK])["st"].reason is Reason.FOREIGN


@pytest.mark.parametrize(
    ("declared", "marks", "stays"),
    [
        ({"tags": "tags"}, KeepMarks(frozenset({"keep"})), True),
        ({"tags": "tags"}, KeepMarks(frozenset({"other"})), False),
        ({"properties": "metadata"}, KeepMarks(properties=(("retention", "legal"),)), True),
        ({"tags": "tags"}, KeepMarks(), False),
        ({}, KeepMarks(frozenset({"keep"})), False),
    ],
    ids=str,
)
@pytest.mark.parametrize("ask", [uses.before_delete, uses.foreseen])
def test_a_keep_mark_on_the_contents_keeps_the_whole(declared, marks, stays, ask):
    """Heat deletes a marked server with its stack. A mark on another project's resource does not count."""
    verdict = ask(dataclasses.replace(whole(**declared), keep_marks=marks), [STACK]).get("st")
    assert (verdict and verdict.reason) == (Reason.PROTECTED if stays else None)
    assert not stays or ("network.thing a" in verdict.message and "keep mark" in verdict.message)


def test_a_use_that_is_ignored_does_not_keep_the_whole():
    context = whole(used_by=(Use(("x.y",), "harms", found(Reason.FOREIGN)),))
    ignoring = dataclasses.replace(context, ignored_uses=frozenset({"network.thing:x.y"}))
    assert uses.before_delete(ignoring, [STACK]) == {}


def test_what_is_another_projects_does_not_keep_the_whole():
    """The whole is deleted with a token that cannot delete it."""
    asked = []

    def find(_connection, _project, some):
        asked.extend(one.id for one in some)
        return {one.id: Verdict(Reason.FOREIGN, "others use it") for one in some if one.id == "b"}

    assert uses.before_delete(whole(used_by=(Use(("x.y",), "harms", find),)), [STACK]) == {}
    assert asked == ["a"]


@pytest.mark.parametrize("status", [400, 404])
def test_what_the_service_does_not_know_does_not_keep_the_whole(status):
    """A user chooses what stands for a resource in the template: it need not be an id of the service."""
    context = whole(used_by=(Use(("x.y",), "harms", found(Reason.FOREIGN)),))
    refusing = connection(network=lambda *_: (status, {}))
    other = dataclasses.replace(context.find_type("network.thing"), connection=refusing)
    context = dataclasses.replace(context, find_type={"network.thing": other}.get)
    assert uses.before_delete(context, [STACK]) == {}


def test_what_a_service_would_have_that_the_catalog_lacks_does_not_keep_the_whole():
    """Otherwise the whole could never be deleted: no call answers."""
    context = whole(used_by=(Use(("x.y",), "harms", found(Reason.FOREIGN)),))
    lacking = connection(compute=lambda *_: (404, {}))
    lacking.config.get_session_client = error
    other = dataclasses.replace(context.find_type("network.thing"), connection=lacking)
    context = dataclasses.replace(context, find_type={"network.thing": other}.get)
    assert uses.before_delete(context, [STACK]) == {}


def error(*_):
    raise RuntimeError("503")


@pytest.mark.parametrize("fails", ["contents", "use"])
def test_a_whole_stays_if_what_it_contains_cannot_be_read(fails):
    context = whole(used_by=(Use(("x.y",), "harms", error if fails == "use" else found(Reason.FOREIGN)),))
    if fails == "contents":
        context = dataclasses.replace(
            context, type=dataclasses.replace(context.type, composition=Composition(contains=error))
        )
    assert "could not be read" in uses.before_delete(context, [STACK])["st"].message
    with pytest.raises(UnreadUse):
        uses.foreseen(context, [STACK])


def test_stacks_and_clusters_contain_what_heat_makes():
    for name in ("stack", "failed_stack", "nested_stack"):
        assert type_of(orchestration, name).composition.contains is contents_of


@pytest.mark.parametrize("name", ["stack", "failed_stack", "nested_stack"])
def test_force_abandons_a_stack_and_so_keeps_what_it_contains(name):
    type_ = type_of(orchestration, name)
    assert type_.keeps_contents_under_force
    assert type_.force.act is orchestration.stacks._abandon and orchestration.stacks._ABANDON.path.endswith("/abandon")


def test_no_other_force_is_said_to_keep_what_a_resource_contains():
    said = {t.name for s in INSTALLED.services.values() for t in s.types if t.keeps_contents_under_force}
    assert said <= {"stack", "failed_stack", "nested_stack"}


# ------------------------------------------------------------------------------------------------------- declarations


def test_a_plugin_without_the_declaration_gets_a_warning():
    service = Service("network", (ResourceType("thing", list=lambda *_: [], delete=None),))
    rules = {found.rule: found.verdict for found in conformance.check(service) if found.subject == "network.thing"}
    assert rules["used-by"] is conformance.Verdict.WARNING


def test_each_use_says_how_it_is_found_or_why_not():
    """A table of the manual is made of them."""
    uses = [
        (f"{s.service_type}.{t.name}: {', '.join(use.by)}", use)
        for s in INSTALLED.services.values()
        for t in s.types
        for use in t.used_by or ()
    ]
    assert [name for name, use in uses if not use.by or not all("." in by for by in use.by)] == []
    assert [name for name, use in uses if not use.harm or use.harm.endswith(".")] == []
    assert [name for name, use in uses if use.unseen and (use.find or use.foresee)] == []
    silent = [(name, use) for name, use in uses if use.find is None and not use.unseen]
    assert [name for name, use in silent if "is refused" not in use.harm] == []
