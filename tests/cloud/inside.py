"""Steps of the preparation that run in the venv of the cloud, where the services can be imported.

    inside.py keystone CONFIG PASSWORD REGION URL [PROJECT USER]
                                                     schema, keys and the first user, in one process; and a second one,
                                                     whose id is in cleanup-user.conf then
    inside.py neutron-schema DATABASE-URL            the schema, straight from the models
    inside.py swift-rings DIRECTORY HOST PORT PORT PORT
    inside.py swift-server DIRECTORY PROGRAM ARGUMENTS
                                                     one of Swift's servers, with the swift.conf of the directory
    inside.py certificate CERTIFICATE KEY            a certificate authority for Octavia, for a month

Several commands share one import, which takes longer than the commands.
"""

from __future__ import annotations

import configparser
import datetime
import grp
import os
import pwd
import runpy
import sys


def keystone(config: str, password: str, region: str, url: str, project: str = "", user: str = "") -> None:
    """Prepare Keystone, as an operator does with four calls of keystone-manage."""
    import serve  # beside this file
    from keystone.cmd import cli

    serve.register_shared_cache()
    account, group = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name
    owner = ["--keystone-user", account, "--keystone-group", group]
    commands = [
        ["db_sync"],
        ["fernet_setup", *owner],
        ["credential_setup", *owner],
        ["bootstrap", f"--bootstrap-password={password}", "--bootstrap-region-id", region]
        + [f"--bootstrap-{interface}-url={url}" for interface in ("public", "internal", "admin")],
    ]
    if user:
        who = [f"--bootstrap-username={user}", f"--bootstrap-project-name={project}"]
        commands.append(["bootstrap", f"--bootstrap-password={password}", *who])
    for command in commands:
        # Its configuration object can be set up only once per process, hence a fork for each.
        if (pid := os.fork()) == 0:
            sys.argv = ["keystone-manage", "--config-file", config, *command]
            try:
                cli.main(argv=sys.argv)
            except BaseException:
                import traceback

                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if status:
            sys.exit(f"keystone-manage {command[0]} failed")
    if user:
        import sqlalchemy

        settings = configparser.ConfigParser(interpolation=None)
        settings.read(config)
        query = sqlalchemy.text("SELECT user_id FROM local_user WHERE name = :name")
        with sqlalchemy.create_engine(settings["database"]["connection"]).begin() as database:
            user_id = database.execute(query, {"name": user}).scalar_one()
        home = os.path.dirname(config)
        with open(os.path.join(home, "cleanup-user.conf"), "w") as file:
            file.write(f"[project_cleanup]\nuser_id = {user_id}\n")


def neutron_schema(url: str) -> None:
    """Neutron's migrations alter constraints, which SQLite cannot; its models describe the same schema."""
    import sqlalchemy
    from neutron.db.migration.models import head

    head.get_metadata().create_all(sqlalchemy.create_engine(url))


def swift_rings(directory: str, host: str, *ports: str) -> None:
    """One device, one replica."""
    from swift.common.ring import RingBuilder

    for kind, port in zip(("account", "container", "object"), ports, strict=True):
        builder = RingBuilder(4, 1, 0)
        place = {"region": 1, "zone": 1, "ip": host, "port": int(port), "device": "sda"}
        replication = {"replication_ip": host, "replication_port": int(port)}
        builder.add_dev({"id": 0, "weight": 1, "meta": "", **place, **replication})
        builder.rebalance()
        builder.get_ring().save(os.path.join(directory, f"{kind}.ring.gz"))


def swift_server(directory: str, program: str, *arguments: str) -> None:
    """Swift before 2.37 takes its `swift_dir` only after it has read /etc/swift/swift.conf."""
    from swift.common.utils import set_swift_dir

    set_swift_dir(directory)
    sys.argv = [program, *arguments]
    runpy.run_path(program, run_name="__main__")


def certificate(path: str, key_path: str) -> None:
    """What `openssl req -x509` makes."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "cleanup")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    with open(path, "wb") as file:
        file.write(made.public_bytes(encoding))
    with open(key_path, "wb") as file:
        file.write(key.private_bytes(encoding, serialization.PrivateFormat.TraditionalOpenSSL, plain))


STEPS = {
    "keystone": keystone,
    "neutron-schema": neutron_schema,
    "swift-rings": swift_rings,
    "swift-server": swift_server,
    "certificate": certificate,
}

if __name__ == "__main__":
    STEPS[sys.argv[1]](*sys.argv[2:])
