"""How to authenticate to brokers as a super-user: a token, the CA of their certificates, a client certificate.

The settings name files, never secrets: settings are written into every plan.

A super-user's token can delete every topic, so it goes only over TLS unless a setting allows otherwise, and only to a
broker whose registration is proved: an ephemeral node, which ends with the broker's session, and an address on the
broker's own host, or on one that the operator's pattern matches. Whoever may register brokers in ZooKeeper can still
name a host of their own; the pattern and the CA of the brokers' certificates shut that out.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from evenkeel.model.errors import InputError
from evenkeel.model.settings import Settings


@dataclass(frozen=True, slots=True)
class BrokerAccess:
    """The credentials of every request to a broker; none by default."""

    token: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    token_over_plain_http: bool = False
    token_hosts: str | None = None
    answer_timeout_s: float | None = None
    """How long to wait for an answer; None leaves that to the connection."""

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Read what the settings point to; a file that cannot be read is refused by name."""
        token_file = settings.broker_token_file
        return cls(
            token=None if token_file is None else _read_token(token_file),
            ca_file=settings.broker_ca_file,
            certificate_file=settings.broker_certificate_file,
            key_file=settings.broker_key_file,
            token_over_plain_http=settings.broker_token_over_plain_http,
            token_hosts=settings.broker_token_hosts,
            answer_timeout_s=settings.broker_answer_timeout_s,
        )

    @property
    def prefers_tls(self) -> bool:
        """Whether to use TLS with a broker that offers both: if a token or anything about TLS is configured."""
        return any((self.token, self.ca_file, self.certificate_file))

    def may_send_token_to(self, url: str) -> bool:
        """Whether the connection to an address keeps the token secret, or need not."""
        return self.token is None or self.token_over_plain_http or url.startswith("https://")

    def require_proved(self, broker_id: str, url: str, is_ephemeral: bool) -> None:
        """Refuse an address that must not see the token; without a token every address will do."""
        if self.token is None:
            return
        if not is_ephemeral:
            raise InputError(
                f"the registration of broker {broker_id} does not end with a session, so it proves no live broker",
                "remove it, or run without broker_token_file",
            )
        host, own_host = urlsplit(url).hostname or "", broker_id.rpartition(":")[0]
        if self.token_hosts is not None and re.fullmatch(self.token_hosts, host) is None:
            raise InputError(
                f"broker {broker_id} is registered at {host}, which broker_token_hosts does not match",
                "check who registered it, or extend the pattern",
            )
        if self.token_hosts is None and host.strip("[]").lower() != own_host.strip("[]").lower():
            raise InputError(
                f"broker {broker_id} is registered at {host}, which is not its own host, so it does not get the token",
                "check who registered it; if the address is right, set broker_token_hosts to a pattern that matches it",
            )
        if not self.may_send_token_to(url):
            raise InputError(
                f"broker {broker_id} offers plain HTTP only, over which the token is not sent",
                "enable TLS on the brokers' web service, or set broker_token_over_plain_http = true",
            )

    def headers_for(self, url: str) -> dict[str, str]:
        """The headers of a request to an address; the token is left out where it must not go."""
        has_token = self.token is not None and self.may_send_token_to(url)
        return {"Authorization": f"Bearer {self.token}"} if has_token else {}

    def tls(self) -> ssl.SSLContext | bool:
        """How brokers' certificates are verified; by the machine's own CAs unless a file is configured."""
        if self.ca_file is None and self.certificate_file is None:
            return True
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.certificate_file is not None:
                context.load_cert_chain(self.certificate_file, self.key_file)
        except (OSError, ssl.SSLError) as error:
            raise InputError(
                f"the TLS files for brokers cannot be used ({error.strerror or error})",
                "check broker_ca_file, broker_certificate_file and broker_key_file",
            ) from error
        return context


def _read_token(file: str) -> str:
    try:
        token = Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the token file {file} cannot be read", "check broker_token_file") from error
    if not token or not token.isascii() or any(character.isspace() for character in token):
        raise InputError(f"the token file {file} does not hold a token", "write the token into it, and nothing else")
    return token
