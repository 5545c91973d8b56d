"""Certificates for tests: an authority of their own, and certificates that it issues."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its key in files."""

    certificate: Path
    key: Path


class Authority:
    """Issues certificates for this machine, into a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._ca = trustme.CA()
        self.root = folder / "root.pem"
        self._ca.cert_pem.write_to_path(str(self.root))

    def issue(self, *names: str, into: Issued | None = None) -> Issued:
        """Issue a certificate, for these names or this machine's; into files that are there already, if given."""
        made = self._ca.issue_cert(*(names or ("localhost", "127.0.0.1")))
        issued = into or Issued(self._folder / "server.pem", self._folder / "server.key")
        issued.certificate.write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
        issued.key.write_bytes(made.private_key_pem.bytes())
        return issued

    @property
    def trusting(self) -> ssl.SSLContext:
        """Give the context with which a client verifies servers."""
        return ssl.create_default_context(cafile=self.root)
