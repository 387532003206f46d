"""Neutron: filters, pages, and what it creates and deletes without a request."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from tests.emulated.http import Request, Response
from tests.emulated.service import Call, Place, Refusal, Service, candidates
from tests.emulated.state import Kind, Row, Touch
from tests.emulated.tables import ROUTER_INTERFACE

PAGING = frozenset({"limit", "marker", "fields", "sort_key", "sort_dir", "page_reverse"})
DEFAULT_GROUP = "default"
#: Parameters that do not filter, as in Neutron: (kind, parameter).
NOT_A_FILTER = {("ndp_proxy", "project_id")}
#: The names of kinds in its 404 messages, where they differ from the kind.
NOT_FOUND = {"floating_ip": "FloatingIPNotFound", "quota": "TenantQuotaNotFound"}


class Network(Service):
    """Neutron."""

    type = "network"
    version = "v2.0"

    def versions(self, request: Request) -> Response:
        links = [{"rel": "self", "href": f"{self.url}/v2.0/"}]
        if self.version in request.parts:
            return Response(200, {"resources": []})
        return Response(200, {"versions": [{"id": "v2.0", "status": "CURRENT", "links": links}]})

    def error(self, refusal: Refusal) -> Response:
        body = {"type": refusal.type or "HTTPError", "message": refusal.message, "detail": ""}
        return Response(refusal.status, {"NeutronError": body})

    def find(self, parts: list[str]) -> Place | None:
        """Treats dashes and underscores in names of collections as equal."""
        place = super().find(parts)
        if place is None:
            place = super().find([part.replace("_", "-") for part in parts[:1]] + parts[1:])
        if place is not None and place.kind.extension and place.kind.extension not in self.cloud.extensions:
            return None
        return place

    def answer(self, call: Call) -> Response:
        if call.parts == ["extensions"]:
            rows = [
                {"name": alias, "alias": alias, "description": "", "updated": "2026-01-01T00:00:00-00:00", "links": []}
                for alias in sorted(self.cloud.extensions)
            ]
            return Response(200, {"extensions": rows})
        return super().answer(call)

    def body(self, row: Row) -> dict[str, Any]:
        body = row.render()
        if row.kind.name == "network":
            body["subnets"] = list(self.table("subnet").linked["network_id"].get(row.id, ()))
        elif row.kind.name == "security_group":
            rules = self.table("security_group_rule").linked["security_group_id"].get(row.id, {})
            body["security_group_rules"] = [
                {**rule.render(), "standard_attr_id": 1, "tags": []} for rule in rules.values()
            ]
        elif row.kind.name == "port" and (trunks := self.table("trunk").linked["port_id"].get(row.id)):
            body["trunk_details"] = {"trunk_id": next(iter(trunks)), "sub_ports": []}
        elif row.kind.name in ("port_forwarding", "conntrack_helper"):  # they do not show their parent
            body.pop(row.kind.parent, None)
        return body

    def collection(self, call: Call, kind: Kind, parent: str) -> Response:
        filters: dict[str, set[str]] = {}
        for name, value in call.request.query:
            if name in PAGING:
                continue
            name = "project_id" if name == "tenant_id" else name
            if (kind.name, name) in NOT_A_FILTER or not (name in kind.shape or name in kind.links or name == "id"):
                raise Refusal(400, f"[{name!r}] are invalid attributes for filtering", "HTTPBadRequest")
            filters.setdefault(name, set()).add(value)
        if parent:
            filters[kind.parent] = {parent}
            if kind.name == "port_forwarding" and parent not in self.table("floating_ip").rows:
                raise self.missing(Place(self.table("floating_ip").kind, id=parent))
        if kind.name == "security_group":
            first = next((v for k, v in call.request.query if k in ("project_id", "tenant_id")), call.token.project)
            self._ensure_default_group(call, first)
        if kind.name == "quota":  # has no filters, and is not paged
            filters = {}
        most = self.cloud.page
        asked = call.request.first("limit")
        limit = min(int(asked), most) if asked else most
        marker = call.request.first("marker")
        if marker and marker not in self.table(kind).rows:
            raise self.missing(Place(kind, id=marker))
        page = []
        for row in candidates(self.table(kind), filters, marker):
            page.append(self.body(row))
            if len(page) == limit:
                break
        answer: dict[str, Any] = {kind.many: page}
        if len(page) == limit and limit:
            kept = [(k, v) for k, v in call.request.query if k not in ("marker", "limit")]
            query = urlencode([*kept, ("limit", limit), ("marker", page[-1][kind.id])])
            href = f"{call.request.base}{call.request.path}?{query}"
            answer[f"{kind.many}_links"] = [{"rel": "next", "href": href}]
        return Response(200, answer)

    def _ensure_default_group(self, call: Call, project: str) -> None:
        """A list creates the default group of the first project in its filter."""
        owned = self.table("security_group").owned.get(project, {})
        if project and not any(group.get("name") == DEFAULT_GROUP for group in owned.values()):
            group = self.default_group(project)
            call.touched.append(Touch("made", group.kind.full, group.id, project))

    def default_group(self, project: str) -> Row:
        """A project's default group with its rules."""
        add = self.state.add
        group = add(
            self.region, "network.security_group", project, name=DEFAULT_GROUP, description="Default security group"
        )
        for direction, remote in (("egress", None), ("ingress", group.id)):
            add(
                self.region,
                "network.security_group_rule",
                project,
                security_group_id=group.id,
                direction=direction,
                remote_group_id=remote,
                protocol=None,
            )
        return group

    def missing(self, place: Place) -> Refusal:
        type_ = NOT_FOUND.get(place.kind.name) or f"{place.kind.name.title().replace('_', '')}NotFound"
        return Refusal(404, f"{place.kind.one} {place.id} could not be found.", type_)

    def check_delete(self, row: Row) -> None:
        kind = row.kind.name
        if kind == "trunk" and row.get("admin_state_up") is False:
            raise Refusal(409, f"Trunk {row.id} is currently disabled.", "TrunkDisabled")
        if kind == "port" and row.get("device_owner") == ROUTER_INTERFACE:
            router = row.get("device_id")
            if router in self.table("router").rows:
                text = (
                    f"Port {row.id} cannot be deleted directly via the port API: has device owner {ROUTER_INTERFACE}."
                )
                raise Refusal(409, text, "ServicePortInUse")
        if kind == "rbac_policy":
            used = self.table("port").linked["network_id"].get(row.get("object_id"), {})
            if any(port.owner == row.get("target_tenant") for port in used.values()):
                raise Refusal(
                    409, f"RBAC policy on object {row.get('object_id')} cannot be removed.", "RbacPolicyInUse"
                )

    def delete(self, call: Call, row: Row) -> Response:
        response = super().delete(call, row)
        if (
            row.kind.name == "firewall_group" and row.get("name") == DEFAULT_GROUP
        ):  # its policies are deleted with it, not the rules
            for attribute in ("ingress_firewall_policy_id", "egress_firewall_policy_id"):
                if policy := self.table("firewall_policy").rows.get(row.get(attribute)):
                    call.touched += self.state.delete(self.region, policy)
        return response

    def action(self, call: Call, place: Place, row: Row) -> Response:
        if place.kind.name != "router" or place.action != "remove_router_interface" or call.request.method != "PUT":
            return super().action(call, place, row)
        said = call.request.json()
        wanted = said.get("port_id")
        ports = self.table("port").linked["device_id"].get(row.id, {}).values()
        subnet = said.get("subnet_id")
        found = (p for p in ports if p.id == wanted or (subnet and subnet in p.links("fixed_ips.subnet_id")))
        port = next((p for p in found if p.get("device_owner") == ROUTER_INTERFACE), None)
        if port is None:
            raise Refusal(404, f"Router {row.id} has no interface on {wanted or subnet}", "RouterInterfaceNotFound")
        subnets = port.links("fixed_ips.subnet_id")
        if row.get("routes"):
            text = f"Router interface on router {row.id} cannot be deleted, as it is required by one or more routes."
            raise Refusal(409, text, "RouterInterfaceInUseByRoute")
        if any(fip.get("port_id") for fip in self.table("floating_ip").linked["router_id"].get(row.id, {}).values()):
            raise Refusal(409, "it is required by one or more floating IPs.", "RouterInterfaceInUseByFloatingIP")
        if row.id in self.table("ndp_proxy").linked["router_id"]:
            raise Refusal(409, "it is required by one or more NDP proxies.", "RouterInterfaceInUseByNDPProxy")
        network = port.get("network_id")
        call.touched.append(Touch("changed", row.kind.full, row.id, row.owner))
        call.touched += self.state.delete(self.region, port)
        first = subnets[0] if subnets else None
        body = {"id": row.id, "project_id": row.owner, "port_id": port.id, "network_id": network, "subnet_id": first}
        return Response(200, {**body, "subnet_ids": subnets})
