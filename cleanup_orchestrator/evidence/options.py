"""The options of reports. The API reads them, and ``cleanup-orchestrator-manage report keys``."""

from __future__ import annotations

from oslo_config import cfg

from cleanup_orchestrator.evidence import signing

_REMAINS = (
    "The operator has not described what remains after a deletion ([report] remains): ask the operator about backups, "
    "replicas, logs, billing records, and rows that services keep as deleted in their databases."
)

OPTS = {
    "report": [
        cfg.StrOpt(
            "signing_key_file",
            default="",
            help="File with the private key that signs the reports of deletions: PEM without a password, Ed25519 or "
            "ECDSA on P-256, readable by the API only. 'openssl genpkey -algorithm ed25519 -out FILE' makes one. "
            "Without this option reports say that they are unsigned. Restart the API after a change.",
        ),
        cfg.StrOpt(
            "verification_keys",
            default="",
            help="JWKS file (RFC 7517) with the public keys of earlier signing keys. 'cleanup-orchestrator-manage "
            "report keys' prints them together with the present one, for the auditors. No process needs it to sign.",
        ),
        cfg.StrOpt(
            "remains",
            default=_REMAINS,
            help="Text of each report: what of a project stays after its deletion outside of the APIs, such as backups "
            "and their retention, replicas, logs, billing records, and rows that services keep as deleted.",
        ),
    ],
}


def signer(conf: cfg.ConfigOpts) -> signing.Signer | None:
    """Return what signs reports; ``None``: no key is configured.

    :raises signing.KeyUnusable: the configured key cannot be used
    """
    path = conf.report.signing_key_file
    return signing.read_signer(path) if path else None


def published(conf: cfg.ConfigOpts) -> dict[str, signing.PublicKey]:
    """Return the public keys for auditors: the present one first, then those of ``verification_keys``.

    :raises signing.KeyUnusable: a file cannot be used
    """
    present, path = signer(conf), conf.report.verification_keys
    keys = {present.public.kid: present.public} if present else {}
    return keys | {kid: key for kid, key in (signing.read_keys(path) if path else {}).items() if kid not in keys}
