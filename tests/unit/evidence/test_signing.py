"""Signatures of reports: which keys sign, which signatures count, and what never does."""

import base64
import hashlib
import hmac
import json

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from jwt.algorithms import OKPAlgorithm

from cleanup_orchestrator.evidence import signing
from cleanup_orchestrator.evidence.signing import KeyUnusable, SignatureWrong, check
from tests.support.evidence import new_signer, pem

PAYLOAD = b'{"a":1}'
KINDS = {"EdDSA": None, "ES256": ec.SECP256R1()}


@pytest.fixture(params=KINDS)
def signer(request):
    made = new_signer(KINDS[request.param])
    assert made.public.algorithm == request.param
    return made


def trusted(*signers):
    return {each.public.kid: each.public for each in signers}


def b64(value):
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def forged(header, signature="AAAA"):
    return f"{b64(json.dumps(header).encode())}..{signature}"


def test_a_signature_counts(signer):
    other = new_signer()
    assert check(PAYLOAD, signer.sign(PAYLOAD), trusted(other, signer)) == signer.public.kid


def test_any_jose_program_can_check_it(signer):
    """RFC 7515, appendix F: with the payload put back, it is an ordinary JWS."""
    header, _, signature = signer.sign(PAYLOAD).split(".")
    whole = f"{header}.{b64(PAYLOAD)}.{signature}"
    assert (
        jwt.PyJWS().decode(whole, jwt.PyJWK(dict(signer.public.jwk)), algorithms=[signer.public.algorithm]) == PAYLOAD
    )


def test_each_changed_character_is_found(signer):
    signature = signer.sign(PAYLOAD)
    for place in range(len(signature)):
        for other in "AZ.=":
            changed = signature[:place] + other + signature[place + 1 :]
            if changed != signature:
                with pytest.raises(SignatureWrong):
                    check(PAYLOAD, changed, trusted(signer))


@pytest.mark.parametrize("payload", [b'{"a":2}', b'{"a":1} ', b"", b'{"a":1'])
def test_another_payload(signer, payload):
    with pytest.raises(SignatureWrong, match="changed after it was signed"):
        check(payload, signer.sign(PAYLOAD), trusted(signer))


def test_no_header_chooses_the_algorithm(signer):
    """RFC 8725, 2.1: 'none', and a public key as the secret of an HMAC."""
    kid = signer.public.kid
    public = signer.public.key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    other = "ES256" if signer.public.algorithm == "EdDSA" else "EdDSA"
    for algorithm in ("none", "None", "", None, "HS256", "HS512", "RS256", other, ["EdDSA"]):
        header = b64(json.dumps({"alg": algorithm, "kid": kid}).encode())
        mac = hmac.new(public, f"{header}.{b64(PAYLOAD)}".encode(), hashlib.sha256).digest()
        for signature in ("", b64(mac), signer.sign(PAYLOAD).split(".")[2]):
            with pytest.raises(SignatureWrong):
                check(PAYLOAD, f"{header}..{signature}", trusted(signer))


@pytest.mark.parametrize(
    "more", [{"b64": False}, {"crit": ["x"]}, {"jwk": {}}, {"jku": "https://x"}, {"x5u": "x"}, {"typ": "JWT"}]
)
def test_a_header_has_nothing_else(signer, more):
    """A key that the signature itself brings is never used."""
    header = b64(json.dumps({"alg": signer.public.algorithm, "kid": signer.public.kid, **more}).encode())
    with pytest.raises(SignatureWrong, match="header"):
        check(PAYLOAD, f"{header}..{signer.sign(PAYLOAD).split('.')[2]}", trusted(signer))


@pytest.mark.parametrize("kid", [None, "", "x", 1, ["x"], {}])
def test_a_signature_of_an_unknown_key(signer, kid):
    with pytest.raises(SignatureWrong, match="not among the given keys"):
        check(PAYLOAD, forged({"alg": signer.public.algorithm, "kid": kid}), trusted(signer))
    with pytest.raises(SignatureWrong, match="not among the given keys"):
        check(PAYLOAD, new_signer().sign(PAYLOAD), trusted(signer))
    with pytest.raises(SignatureWrong):
        check(PAYLOAD, signer.sign(PAYLOAD), {})


@pytest.mark.parametrize(
    "signature", [None, 1, "", "..", "a..b", "a.b.c", ".", "é..é", forged([]), f"{b64(b'x')}..A", [], {}]
)
def test_what_is_no_signature(signer, signature):
    with pytest.raises(SignatureWrong):
        check(PAYLOAD, signature, trusted(signer))


def test_the_thumbprint_is_that_of_the_standard():
    """RFC 8037, appendix A.3."""
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
    found = signing._from_jwk(jwk | {"kid": "another name"})
    assert found.kid == found.jwk["kid"] == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


# ------------------------------------------------------------------------------------------------------------- files
@pytest.mark.parametrize("kind", [ed25519.Ed25519PrivateKey.generate, lambda: ec.generate_private_key(ec.SECP256R1())])
def test_keys_go_through_files(tmp_path, kind):
    (tmp_path / "key.pem").write_bytes(pem(kind()))
    signer = signing.read_signer(str(tmp_path / "key.pem"))
    (tmp_path / "keys.json").write_text(json.dumps(signing.jwks(trusted(signer))))
    keys = signing.read_keys(str(tmp_path / "keys.json"))
    assert check(PAYLOAD, signer.sign(PAYLOAD), keys) == signer.public.kid
    assert keys[signer.public.kid].jwk == signer.public.jwk


WRONG_PEM = {
    "none": b"",
    "rsa": lambda: pem(rsa.generate_private_key(65537, 2048)),
    "p-384": lambda: pem(ec.generate_private_key(ec.SECP384R1())),
    "ed448": lambda: pem(ed448.Ed448PrivateKey.generate()),
    "public": lambda: new_signer().public.key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    ),
    "password": lambda: ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    ),
}


@pytest.mark.parametrize("name", WRONG_PEM)
def test_a_private_key_that_cannot_be_used_is_one_line(tmp_path, name):
    path = tmp_path / "key.pem"
    path.write_bytes(WRONG_PEM[name]() if callable(WRONG_PEM[name]) else WRONG_PEM[name])
    with pytest.raises(KeyUnusable) as found:
        signing.read_signer(str(path))
    assert str(path) in str(found.value) and "\n" not in str(found.value)
    with pytest.raises(KeyUnusable, match="cannot be read"):
        signing.read_signer(str(tmp_path / "missing"))


def test_a_private_key_among_the_keys_for_auditors_is_named(tmp_path):
    whole = json.loads(OKPAlgorithm.to_jwk(ed25519.Ed25519PrivateKey.generate()))
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [whole]}))
    with pytest.raises(KeyUnusable, match="it has a private key"):
        signing.read_keys(str(tmp_path / "keys.json"))


GOOD = dict(new_signer().public.jwk)
EC = dict(new_signer(ec.SECP256R1()).public.jwk)


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "{}", '{"keys": []}', '{"keys": {}}', '{"keys": [1]}', '{"keys": [{}]}', "[" * 100_000,
        json.dumps({"keys": [GOOD, {"kty": "oct", "k": "AAAA"}]}),
        json.dumps({"keys": [GOOD | {"d": "AAAA"}]}),
        json.dumps({"keys": [GOOD | {"x": "AAAA"}]}),
        json.dumps({"keys": [GOOD | {"x": 1}]}),
        json.dumps({"keys": [GOOD | {"crv": "X25519"}]}),
        json.dumps({"keys": [{"kty": "OKP", "crv": "Ed25519"}]}),
        json.dumps({"keys": [{**EC, "y": EC["x"]}]}),
        json.dumps({"keys": [{**EC, "crv": "P-384"}]}),
        json.dumps({"keys": [{"kty": ["EC"], "crv": "P-256"}]}),
    ],
)  # fmt: skip
def test_a_file_of_keys_that_cannot_be_used_is_one_line(tmp_path, text):
    path = tmp_path / "keys.json"
    path.write_text(text)
    with pytest.raises(KeyUnusable) as found:
        signing.read_keys(str(path))
    assert str(path) in str(found.value) and "\n" not in str(found.value)
