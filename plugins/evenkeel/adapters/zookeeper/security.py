"""The security file, and the kazoo options that follow from it.

    scheme = "digest"                       # or "sasl" (DIGEST-MD5); left out: no authentication
    user = "evenkeel"
    password_file = "/run/secrets/zk"       # or password_variable = "ZK_PASSWORD", an environment variable
    tls = true
    ca_file = "/etc/zk/ca.pem"
    certificate_file = "/etc/zk/evenkeel.pem"   # with key_file, where ZooKeeper requires client certificates
    key_file = "/etc/zk/evenkeel.key"
    check_host_name = true
    open_nodes = false                      # true: everybody may write Evenkeel's own nodes

The file holds no secrets, only where they are, so it may be shown and kept under version control. Secrets are read
once, into an object that does not print them, and are passed to kazoo alone, which is kept from logging them.
"""

from __future__ import annotations

import importlib.util
import logging
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, KazooException
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from evenkeel.model.connection import ZooKeeperScheme, ZooKeeperSecurity
from evenkeel.model.errors import InputError, UnavailableError

SASL_MECHANISM = "DIGEST-MD5"
TEXT_KEYS = ("scheme", "user", "password_file", "password_variable", "ca_file", "certificate_file", "key_file")
SWITCH_KEYS = ("tls", "check_host_name", "open_nodes")
OPEN_TO_ALL = OPEN_ACL_UNSAFE
"""For nodes in Pulsar's tree, which its brokers must be able to read and write whoever made them."""


class DiscreetLogger(logging.LoggerAdapter[logging.Logger]):
    """kazoo's logger without debug messages: they include the requests, and so the one that carries the password.

    This is a rule of its own rather than a log level, so no logging configuration can undo it.
    """

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802
        return level >= logging.INFO and super().isEnabledFor(level)


def load_security(file: Path, environment: Mapping[str, str]) -> ZooKeeperSecurity:
    """Read a security file and the secret that it points to; errors name what is wrong, never a secret."""
    values = _read_toml(file)
    for key, value in values.items():
        wanted = str if key in TEXT_KEYS else bool if key in SWITCH_KEYS else None
        if wanted is None:
            raise InputError(f"{file}: unknown key {key!r}", f"use {', '.join((*TEXT_KEYS, *SWITCH_KEYS))}")
        if not isinstance(value, wanted):
            raise InputError(f"{file}: {key} has the wrong type", "write text in quotes, and switches as true or false")
    try:
        return ZooKeeperSecurity(
            scheme=_scheme(values.get("scheme", "none")),
            user=values.get("user", ""),
            password=_read_password(values, environment),
            has_tls=values.get("tls", False),
            ca_file=_readable(values, "ca_file"),
            certificate_file=_readable(values, "certificate_file"),
            key_file=_readable(values, "key_file"),
            checks_host_name=values.get("check_host_name", True),
            has_open_nodes=values.get("open_nodes", False),
        )
    except InputError as error:
        raise InputError(f"{file}: {error.cause}", error.remedy) from error


def client_options(security: ZooKeeperSecurity) -> dict[str, Any]:
    """The arguments for a KazooClient."""
    options: dict[str, Any] = {}
    match security.scheme:
        case ZooKeeperScheme.DIGEST:
            options["auth_data"] = [("digest", f"{security.user}:{security.password}")]
        case ZooKeeperScheme.SASL:
            if importlib.util.find_spec("puresasl") is None:
                raise InputError("SASL needs the package pure-sasl, which is not installed", "pip install pure-sasl")
            options["sasl_options"] = {
                "mechanism": SASL_MECHANISM,
                "service": "zookeeper",
                "principal": "zk-sasl-md5",
                "username": security.user,
                "password": security.password,
            }
    if security.scheme is not ZooKeeperScheme.NONE:
        options["logger"] = DiscreetLogger(logging.getLogger("kazoo.client"))
    if security.has_tls:
        options |= {
            "use_ssl": True,
            "ca": security.ca_file,
            "certfile": security.certificate_file,
            "keyfile": security.key_file,
            "verify_certs": True,
            "check_hostname": security.checks_host_name,
        }
    if security.owns_its_nodes:
        options["default_acl"] = CREATOR_ALL_ACL
    return options


def require_login(client: KazooClient, hosts: str, security: ZooKeeperSecurity, timeout_s: float) -> None:
    """Refuse credentials that ZooKeeper rejects; it says so only at the first request."""
    if security.scheme is not ZooKeeperScheme.SASL:
        # A digest is not checked before an ACL requires it.
        return
    try:
        client.exists_async("/").get(timeout=timeout_s)
    except AuthFailedError as error:
        raise InputError(
            f"ZooKeeper at {hosts} rejected the credentials of {security.user!r}", "check the user and the password"
        ) from error
    except (KazooException, KazooTimeoutError) as error:
        raise UnavailableError(
            f"ZooKeeper at {hosts} closed the connection after the login ({type(error).__name__})",
            "check the user, the password and the server's log",
        ) from error


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise InputError(
            f"cannot read ZooKeeper's security file {file} ({error.strerror})", "check the path"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"ZooKeeper's security file {file} is not TOML", "correct the file") from error


def _scheme(text: str) -> ZooKeeperScheme:
    try:
        return ZooKeeperScheme(text)
    except ValueError as error:
        raise InputError(f"scheme = {text!r} is unknown", "use digest or sasl, or leave it out") from error


def _read_password(values: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    file, variable = values.get("password_file"), values.get("password_variable")
    if file is not None and variable is not None:
        raise InputError("password_file and password_variable are both set", "keep one of them")
    if variable is not None:
        if variable not in environment:
            raise InputError(f"the environment has no variable {variable}", "set it, or give another one")
        return environment[variable]
    if file is None:
        return ""
    try:
        return Path(file).read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the password file {file} cannot be read", "check password_file") from error


def _readable(values: Mapping[str, Any], key: str) -> str | None:
    file: str | None = values.get(key)
    if file is not None and not Path(file).is_file():
        raise InputError(f"{key} = {file} is not a file", "check the path")
    return file
