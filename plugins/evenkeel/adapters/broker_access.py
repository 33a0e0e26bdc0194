"""How brokers let a super-user in: a token, the authority that signed their certificates, a certificate of one's own.

The settings name files, never secrets: settings are written into every plan.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from evenkeel.model.errors import InputError
from evenkeel.model.settings import Settings


@dataclass(frozen=True, slots=True)
class BrokerAccess:
    """What every request to a broker carries; the plain one carries nothing."""

    token: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Read what the settings point to; a file that cannot be read is refused by name."""
        token_file = settings.broker_token_file
        return cls(
            token=None if token_file is None else _read_token(token_file),
            ca_file=settings.broker_ca_file,
            certificate_file=settings.broker_certificate_file,
            key_file=settings.broker_key_file,
        )

    @property
    def prefers_tls(self) -> bool:
        """Whether a broker that has both addresses is asked by TLS: where anything secret or TLS is configured."""
        return any((self.token, self.ca_file, self.certificate_file))

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}

    def tls(self) -> ssl.SSLContext | bool:
        """How brokers are proved to be themselves; the machine's own authorities unless a file is named."""
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
        raise InputError(f"the token file {file} holds no token", "write the token, and nothing else, into it")
    return token
