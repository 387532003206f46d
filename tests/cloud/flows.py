"""Every way to get a project-scoped token from Keystone, as requests that return the status."""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import itertools
import secrets
import time
import urllib.parse
from collections.abc import Callable
from typing import Any

import requests

from tests.cloud.identity import PATIENCE
from tests.cloud.launcher import Cloud

#: Where there is no web server to fill REMOTE_USER, a request's own headers are what the mapping reads.
IDP_HEADER, USER_HEADER = "X-Test-Idp", "X-Test-User"
PASSWORD = "secret"

Login = Callable[[str], requests.Response]  #: called with the v3 URL of one Keystone process


def until_known(ask: Callable[[], requests.Response]) -> requests.Response:
    """Return the answer; a request that Keystone answers with 503 is sent again, for a while.

    A Keystone with the fence plugin answers 503 without a recent reading of the fences, for example on a busy machine.
    """
    deadline = time.monotonic() + PATIENCE
    while (answer := ask()).status_code == 503 and time.monotonic() < deadline:
        time.sleep(0.2)
    return answer


class Flows:
    """One project, users with every kind of access, and the first token of each user."""

    def __init__(
        self, cloud: Cloud, cleanup_user: str = "", password: str = "", only: tuple[str, ...] | None = None
    ) -> None:
        self.cloud = cloud
        self.suffix = secrets.token_hex(4)
        self._ids = itertools.count()
        self.domain_id = self._make("domains", name=f"flows-{self.suffix}")["id"]
        self.project_id = self._make("projects", name="flows", domain_id=self.domain_id)["id"]
        self.role_id = cloud.admin.ensure("roles", "role", {"name": "member"})["id"]
        self.user_id = self.person()
        self._grant(f"projects/{self.project_id}/users/{self.user_id}")
        make: dict[str, Callable[[], Login]] = {
            "password": lambda: lambda url: self.login(url, self._password(self.user_id)),
            "token, rescoped": self._rescope,
            "application credential": self._application_credential,
            "trust (trustee)": self._trust,
            "EC2": self._ec2,
            "S3": self._s3,
            "OAuth1": self._oauth1,
            "OAuth2 client": self._oauth2,
            "federated (mapped)": self._federated,
            "group's role": self._group,
            "inherited role": self._inherited,
        }
        self.logins: dict[str, Login] = {name: made() for name, made in make.items() if only is None or name in only}
        if cleanup_user:
            self.logins["the orchestrator"] = lambda url: self.login(
                url, {"name": cleanup_user, "domain": {"id": "default"}, "password": password}
            )
        self.tokens: dict[str, str] = {}

    # -- requests
    def first_tokens(self) -> None:
        """Log in by every flow and keep the tokens, each seen by every process, which may cache it."""
        for name, login in self.logins.items():
            answer = until_known(functools.partial(login, self.cloud.auth_url))
            assert answer.ok, (name, answer.status_code, answer.text)
            if token := token_of(answer):
                self.tokens[name] = token
        for url, token in itertools.product(self.cloud.keystone_urls, self.tokens.values()):
            assert self.validate(url, token) == 200

    def validate(self, url: str, token: str, **headers: str) -> int:
        """Return the status code with which Keystone answers the administrator who validates a token."""
        return self.validation(url, token, **headers).status_code

    def validation(self, url: str, token: str, **headers: str) -> requests.Response:
        """Return the answer to the administrator who validates a token."""
        headers = self.admin | {"X-Subject-Token": token} | headers
        ask = functools.partial(requests.get, f"{url}/auth/tokens?nocatalog", headers=headers, timeout=60)
        return until_known(ask)

    def answers(self) -> dict[str, tuple[frozenset[int], frozenset[int]]]:
        """Return for each flow the status of the login and of the validation of its first token, by all processes."""
        urls = self.cloud.keystone_urls
        return {
            name: (
                frozenset(until_known(functools.partial(login, url)).status_code for url in urls),
                frozenset(self.validate(url, self.tokens[name]) for url in urls if name in self.tokens),
            )
            for name, login in self.logins.items()
        }

    @functools.cached_property
    def admin(self) -> dict[str, str]:
        """Headers with a token of the administrator, who logs in once."""
        rest = self.cloud.admin
        rest._authenticate()
        return {"X-Auth-Token": rest._token}

    @property
    def scope(self) -> dict[str, Any]:
        return {"project": {"id": self.project_id}}

    # -- building blocks
    def _make(self, collection: str, **attributes: Any) -> dict[str, Any]:
        key = collection.rpartition("/")[2][:-1]
        return self.cloud.admin.call("POST", f"/{collection}", {key: attributes})[key]

    def person(self) -> str:
        """Create a user and return its id."""
        user = self._make("users", name=f"person-{next(self._ids)}", domain_id=self.domain_id, password=PASSWORD)
        return str(user["id"])

    def _grant(self, where: str) -> None:
        self.cloud.admin.call("PUT", f"/{where}/roles/{self.role_id}")

    @staticmethod
    def _password(user_id: str) -> dict[str, Any]:
        return {"id": user_id, "password": PASSWORD}

    def login(self, url: str, user: dict[str, Any], scope: Any = None) -> requests.Response:
        """Log in with a password; with the scope of the project, or with `scope`."""
        return self._auth(url, {"methods": ["password"], "password": {"user": user}}, scope or self.scope)

    @staticmethod
    def _auth(url: str, identity: dict[str, Any], scope: Any = None, **headers: str) -> requests.Response:
        body = {"auth": {"identity": identity} | ({"scope": scope} if scope else {})}
        return requests.post(f"{url}/auth/tokens", json=body, headers=headers, timeout=60)

    def _own(self, user_id: str, unscoped: bool = False) -> dict[str, str]:
        scope = "unscoped" if unscoped else self.scope
        answer = until_known(lambda: self.login(self.cloud.auth_url, self._password(user_id), scope))
        assert answer.status_code == 201, answer.text
        return {"X-Auth-Token": answer.headers["X-Subject-Token"]}

    def _post(self, path: str, user_id: str, body: Any, unscoped: bool = False) -> dict[str, Any]:
        url, headers = f"{self.cloud.auth_url}/{path}", self._own(user_id, unscoped)
        answer = until_known(lambda: requests.post(url, json=body, headers=headers, timeout=60))
        assert answer.status_code == 201, answer.text
        return answer.json()

    # -- the flows
    def _rescope(self) -> Login:
        unscoped = self._own(self.user_id, unscoped=True)["X-Auth-Token"]
        return lambda url: self._auth(url, {"methods": ["token"], "token": {"id": unscoped}}, self.scope)

    def _credential(self) -> dict[str, str]:
        body = {"application_credential": {"name": f"credential-{next(self._ids)}"}}
        made = self._post(f"users/{self.user_id}/application_credentials", self.user_id, body)["application_credential"]
        return {"id": made["id"], "secret": made["secret"]}

    def _application_credential(self) -> Login:
        key = self._credential()
        return lambda url: self._auth(url, {"methods": ["application_credential"], "application_credential": key})

    def _oauth2(self) -> Login:
        key = self._credential()
        credential = (key["id"], key["secret"])
        form = {"grant_type": "client_credentials"}
        return lambda url: requests.post(f"{url}/OS-OAUTH2/token", auth=credential, data=form, timeout=60)

    def _trust(self) -> Login:
        trustee = self.person()
        trust = {
            "trustor_user_id": self.user_id,
            "trustee_user_id": trustee,
            "project_id": self.project_id,
            "impersonation": False,
            "roles": [{"id": self.role_id}],
        }
        made = self._post("OS-TRUST/trusts", self.user_id, {"trust": trust})["trust"]
        return lambda url: self.login(url, self._password(trustee), {"OS-TRUST:trust": {"id": made["id"]}})

    def _key(self) -> dict[str, str]:
        return self._post(f"users/{self.user_id}/credentials/OS-EC2", self.user_id, {"tenant_id": self.project_id})[
            "credential"
        ]

    def _ec2(self) -> Login:
        key = self._key()

        def login(url: str) -> requests.Response:
            params = {
                "SignatureVersion": "2",
                "SignatureMethod": "HmacSHA256",
                "AWSAccessKeyId": key["access"],
                "Timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            }
            query = urllib.parse.urlencode(sorted(params.items()), quote_via=urllib.parse.quote, safe="-_~")
            text = f"GET\nec2.example.org\n/\n{query}"
            signature = hmac.new(key["secret"].encode(), text.encode(), hashlib.sha256).digest()
            credentials = {
                "access": key["access"],
                "signature": base64.b64encode(signature).decode(),
                "host": "ec2.example.org",
                "verb": "GET",
                "path": "/",
                "params": params,
            }
            return requests.post(f"{url}/ec2tokens", json={"credentials": credentials}, headers=self.admin, timeout=60)

        return login

    def _s3(self) -> Login:
        key = self._key()

        def login(url: str) -> requests.Response:
            text = f"GET\n\n\n{time.strftime('%a, %d %b %Y %H:%M:%S +0000', time.gmtime())}\n/bucket".encode()
            signature = hmac.new(key["secret"].encode(), text, hashlib.sha1).digest()
            credentials = {
                "access": key["access"],
                "signature": base64.b64encode(signature).decode(),
                "token": base64.urlsafe_b64encode(text).decode(),
            }
            return requests.post(f"{url}/s3tokens", json={"credentials": credentials}, headers=self.admin, timeout=60)

        return login

    def _oauth1(self) -> Login:
        base = f"{self.cloud.auth_url}/OS-OAUTH1"
        consumer = self._make("OS-OAUTH1/consumers", description=self.suffix)
        consumer_key = consumer["id"], consumer["secret"]

        def signed(path: str, key: str = "", secret: str = "", verifier: str = "", **headers: str) -> tuple[str, str]:
            header = {"Authorization": oauth1_header(f"{base}/{path}", *consumer_key, key, secret, verifier)} | headers
            answer = requests.post(f"{base}/{path}", headers=header, timeout=60)
            assert answer.status_code == 201, answer.text
            found = urllib.parse.parse_qs(answer.text)
            return found["oauth_token"][0], found["oauth_token_secret"][0]

        owner = self.person()  # only an admin may authorize it
        self._grant(f"projects/{self.project_id}/users/{owner}")
        self.cloud.admin.ensure_role(self.project_id, owner, "admin")
        key, secret = signed("request_token", **{"Requested-Project-Id": self.project_id})
        answer = requests.put(
            f"{base}/authorize/{key}",
            json={"roles": [{"id": self.role_id}]},
            headers=self._own(owner),
            timeout=60,
        )
        assert answer.ok, answer.text
        access, access_secret = signed("access_token", key, secret, answer.json()["token"]["oauth_verifier"])

        def login(url: str) -> requests.Response:
            # Keystone checks it against its public URL, whichever process is asked.
            header = oauth1_header(f"{self.cloud.auth_url}/auth/tokens", *consumer_key, access, access_secret)
            return self._auth(url, {"methods": ["oauth1"], "oauth1": {}}, Authorization=header)

        return login

    def _federated(self) -> Login:
        group = self._make("groups", name="federated", domain_id=self.domain_id)["id"]
        self._grant(f"projects/{self.project_id}/groups/{group}")
        name = f"flows-{self.suffix}"
        call = self.cloud.admin.call
        idp = {"identity_provider": {"remote_ids": [name], "enabled": True, "domain_id": self.domain_id}}
        call("PUT", f"/OS-FEDERATION/identity_providers/{name}", idp)
        local = [{"user": {"name": "{0}"}}, {"group": {"id": group}}]
        rules = [{"local": local, "remote": [{"type": environ(USER_HEADER)}]}]
        call("PUT", f"/OS-FEDERATION/mappings/{name}", {"mapping": {"rules": rules}})
        protocol = {"protocol": {"mapping_id": name, "remote_id_attribute": environ(IDP_HEADER)}}
        call("PUT", f"/OS-FEDERATION/identity_providers/{name}/protocols/mapped", protocol)
        identity = {"methods": ["mapped"], "mapped": {"identity_provider": name, "protocol": "mapped"}}
        headers = {IDP_HEADER: name, USER_HEADER: "somebody"}
        return lambda url: self._auth(url, identity, self.scope, **headers)

    def _group(self) -> Login:
        member, group = self.person(), self._make("groups", name="members", domain_id=self.domain_id)["id"]
        self.cloud.admin.call("PUT", f"/groups/{group}/users/{member}")
        self._grant(f"projects/{self.project_id}/groups/{group}")
        return lambda url: self.login(url, self._password(member))

    def _inherited(self) -> Login:
        heir = self.person()
        path = f"/OS-INHERIT/domains/{self.domain_id}/users/{heir}/roles/{self.role_id}/inherited_to_projects"
        self.cloud.admin.call("PUT", path)
        return lambda url: self.login(url, self._password(heir))


def token_of(answer: requests.Response) -> str | None:
    """Return the token of an answer; the answer to S3 has none."""
    if token := answer.headers.get("X-Subject-Token"):
        return token
    return answer.json().get("access_token")


def environ(header: str) -> str:
    """Return the WSGI name of a header."""
    return f"HTTP_{header.upper().replace('-', '_')}"


def oauth1_header(url: str, consumer: str, secret: str, token: str = "", token_secret: str = "", verifier: str = ""):
    """Return the header of RFC 5849 with HMAC-SHA1."""
    values = {
        "oauth_callback": "oob" if not token else "",
        "oauth_consumer_key": consumer,
        "oauth_nonce": secrets.token_hex(8),
        "oauth_signature_method": "HMAC-SHA1",
        "oauth_timestamp": str(int(time.time())),
        "oauth_token": token,
        "oauth_verifier": verifier,
        "oauth_version": "1.0",
    }
    values = {key: value for key, value in values.items() if value}
    quote = lambda text: urllib.parse.quote(text, safe="~")  # noqa: E731
    pairs = "&".join(f"{key}={quote(value)}" for key, value in sorted(values.items()))
    text = "&".join(["POST", quote(url), quote(pairs)])
    key = f"{quote(secret)}&{quote(token_secret)}"
    values["oauth_signature"] = base64.b64encode(hmac.new(key.encode(), text.encode(), hashlib.sha1).digest()).decode()
    return "OAuth " + ", ".join(f'{key}="{quote(value)}"' for key, value in sorted(values.items()))
