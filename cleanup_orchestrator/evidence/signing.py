"""Signs reports, and checks their signatures: detached JWS (RFC 7515, appendix F) with Ed25519 or ECDSA on P-256.

PyJWT does the cryptography: Keystone uses it, too. The payload is the canonical JSON of a report. A key is known by its
thumbprint (RFC 7638), whatever name a file gives it, and each key has one algorithm. So neither the header of a
signature nor a file can choose a weaker one.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from jwt.algorithms import ECAlgorithm, OKPAlgorithm

from cleanup_orchestrator.core import canonical
from cleanup_orchestrator.errors import CleanupError

#: The algorithm of each kind of key, by type and curve. No other key signs a report.
_ALGORITHMS: Final = {("OKP", "Ed25519"): "EdDSA", ("EC", "P-256"): "ES256"}
#: The members of a key that its thumbprint covers (RFC 7638, 3.2; RFC 8037, 2).
_MEMBERS: Final = {"OKP": ("crv", "kty", "x"), "EC": ("crv", "kty", "x", "y")}
_USABLE = "only Ed25519 and ECDSA on P-256 sign reports: 'openssl genpkey -algorithm ed25519 -out FILE' makes a key"

_JWS = jwt.PyJWS(algorithms=sorted(_ALGORITHMS.values()))


class KeyUnusable(CleanupError):
    """A file has no key that can be used. Its text is one line, and names the file."""


class SignatureWrong(CleanupError):
    """A signature is not that of the report by a known key. Its text says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that checks signatures."""

    kid: str  #: the thumbprint
    algorithm: str
    key: Any
    jwk: Mapping[str, str]  #: the key for JSON, with ``kid``, ``alg`` and ``use``


class Signer:
    """Signs with one private key."""

    def __init__(self, private: Any) -> None:
        self._private = private
        self.public = _public_key(private.public_key())

    def sign(self, payload: bytes) -> str:
        """Return the signature of a payload: a compact JWS without its payload."""
        headers = {"kid": self.public.kid, "typ": None}
        whole = _JWS.encode(payload, self._private, algorithm=self.public.algorithm, headers=headers)
        header, _payload, signature = whole.split(".")
        return f"{header}..{signature}"


def read_signer(path: str) -> Signer:
    """Return the signer with the private key in a PEM file.

    :raises KeyUnusable: the file cannot be read, or has no usable private key
    """
    try:
        private = serialization.load_pem_private_key(_read(path), password=None)
    except (ValueError, TypeError) as error:
        raise KeyUnusable(f"{path} has no private key in PEM without a password: {_line(error)}") from None
    if not isinstance(private, ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey):
        raise KeyUnusable(f"{path}: {_USABLE}")
    try:
        return Signer(private)
    except KeyUnusable as error:
        raise KeyUnusable(f"{path}: {error}") from None


def read_keys(path: str) -> dict[str, PublicKey]:
    """Return the public keys of a JWKS file (RFC 7517) by their thumbprints.

    :raises KeyUnusable: the file cannot be read, is no JWKS, or has a key that is private or of another kind
    """
    try:
        document = json.loads(_read(path))
    except (ValueError, RecursionError):
        raise KeyUnusable(f"{path} is not JSON") from None
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list) or not keys:
        raise KeyUnusable(f'{path} is no JWKS: it has no list "keys"')
    try:
        found = [_from_jwk(each) for each in keys]
    except KeyUnusable as error:
        raise KeyUnusable(f"{path}: {error}") from None
    return {each.kid: each for each in found}


def jwks(keys: Mapping[str, PublicKey]) -> dict[str, Any]:
    """Return the JWKS document of public keys."""
    return {"keys": [dict(each.jwk) for each in keys.values()]}


def check(payload: bytes, signature: object, keys: Mapping[str, PublicKey]) -> str:
    """Check the signature of a payload; return the thumbprint of the key.

    :param keys: those that are trusted, by thumbprint
    :raises SignatureWrong: the signature is none, is of an unknown key, or is not that of the payload
    """
    parts = signature.split(".") if isinstance(signature, str) else []
    if len(parts) != 3 or parts[1]:
        raise SignatureWrong("the signature is no detached JWS")
    header = _header(parts[0])
    kid = header.get("kid")
    key = keys.get(kid) if isinstance(kid, str) else None
    if key is None:
        raise SignatureWrong(f"the key of the signature ({kid!s:.100}) is not among the given keys")
    if header != {"alg": key.algorithm, "kid": kid}:
        raise SignatureWrong("the header of the signature is not as this key signs")
    whole = f"{parts[0]}.{_encoded(payload)}.{parts[2]}"
    try:
        if _encoded(_decoded(parts[2])) != parts[2]:
            raise SignatureWrong("the signature is no detached JWS")
        _JWS.decode_complete(whole, key.key, algorithms=[key.algorithm])
    except (jwt.PyJWTError, ValueError):
        raise SignatureWrong("the report was changed after it was signed: the signature does not match") from None
    return key.kid


def _header(part: str) -> dict[str, Any]:
    try:
        header = json.loads(_decoded(part))
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise SignatureWrong("the signature is no detached JWS")
    return header


def _from_jwk(jwk: object) -> PublicKey:
    if not isinstance(jwk, dict) or (str(jwk.get("kty")), str(jwk.get("crv"))) not in _ALGORITHMS:
        raise KeyUnusable(_USABLE)
    if "d" in jwk:
        raise KeyUnusable("it has a private key: publish and give only public keys")
    implementation = OKPAlgorithm if jwk["kty"] == "OKP" else ECAlgorithm
    try:
        return _public_key(implementation.from_jwk(jwk))
    except (jwt.PyJWTError, ValueError, TypeError, KeyError) as error:
        raise KeyUnusable(f"a key of it cannot be read: {_line(error)}") from None


def _public_key(key: Any) -> PublicKey:
    """Return a key with its thumbprint.

    :raises KeyUnusable: it is of another kind
    """
    implementation = OKPAlgorithm if isinstance(key, ed25519.Ed25519PublicKey) else ECAlgorithm
    whole = json.loads(implementation.to_jwk(key))
    algorithm = _ALGORITHMS.get((whole["kty"], whole["crv"]))
    if algorithm is None:
        raise KeyUnusable(_USABLE)
    members = {name: str(whole[name]) for name in _MEMBERS[whole["kty"]]}
    kid = _encoded(hashlib.sha256(canonical.encoded(members)).digest())
    return PublicKey(kid, algorithm, key, {**members, "kid": kid, "alg": algorithm, "use": "sig"})


def _encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(str(error)) from None


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise KeyUnusable(f"{path} cannot be read: {error.strerror or error}") from None


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
