"""Certificates of the embedded cluster: a CA, the API server's own, and client certificates (CN: user, O: groups).

Keys are P-256 (made in a millisecond) and live in this process; nothing is written unless somebody asks for a file.
"""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from killcheck.clock import wall_now

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

__all__ = ["SERVER_NAMES", "SERVICE_IP", "Identity", "Pki"]

#: The ClusterIP of the Service ``default/kubernetes``, as kubeadm gives it.
SERVICE_IP = "10.96.0.1"
#: Under which names the API server's certificate is good.
SERVER_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
    "127.0.0.1",
    "::1",
    SERVICE_IP,
)
#: Validity on the host's clock (TLS peers check it there, whatever the virtual clock says).
VALID = (timedelta(days=-1), timedelta(days=365))
#: Those that clients refuse for the time that they read off their clocks.
OTHERS = {"ended": (VALID[0], timedelta(hours=-1)), "early": (timedelta(hours=1), VALID[1])}


class Identity(Struct, frozen=True):
    """A certificate and its private key, PEM."""

    certificate_pem: str
    key_pem: str


class Pki:
    """One cluster's certificates, each made when first asked for."""

    @property
    def ca_pem(self) -> str:
        """The CA's certificate: what clients trust, and ConfigMap ``kube-root-ca.crt`` holds."""
        return _pem(self._ca[0])

    @cached_property
    def server(self) -> Identity:
        """The API server's certificate, good for :data:`SERVER_NAMES`."""
        return self._issue("kube-apiserver", (), SERVER_NAMES)

    @cached_property
    def admin(self) -> Identity:
        """The administrator of a kubeadm cluster: ``kubernetes-admin`` in ``system:masters``."""
        return self.client("kubernetes-admin", ("system:masters",))

    def client(self, common_name: str, organizations: Sequence[str] = ()) -> Identity:
        """A client certificate for any user and groups."""
        return self._issue(common_name, organizations, ())

    @cached_property
    def _others(self) -> dict[str, ssl.SSLContext]:
        return {}

    def other_context(self, when: str) -> ssl.SSLContext:
        """As :meth:`server_context`, with a certificate of the same CA and names: ``ended``, or ``early``."""
        if when not in self._others:
            identity = self._issue("kube-apiserver", (), SERVER_NAMES, OTHERS[when])
            self._others[when] = self.server_context(identity)
        return self._others[when]

    def server_context(self, identity: Identity | None = None) -> ssl.SSLContext:
        """TLS for the server's side: client certificates are asked for, verified against the CA, and optional."""
        identity = identity or self.server
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        context.load_verify_locations(cadata=self.ca_pem)
        context.verify_mode = ssl.CERT_OPTIONAL
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # mode 0600; ssl loads keys from files only
            file.write(identity.certificate_pem + identity.key_pem)
            file.flush()
            context.load_cert_chain(Path(file.name))
        return context

    # -- inside --------------------------------------------------------------------------------------------
    @cached_property
    def _ca(self) -> tuple[x509.Certificate, EllipticCurvePrivateKey]:
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("kubernetes", ())
        builder = _builder(name, name, key)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(_usage(ca=True), critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        return _signed(builder, key), key

    def _issue(
        self,
        common_name: str,
        organizations: Sequence[str],
        names: Sequence[str],
        valid: tuple[timedelta, timedelta] = VALID,
    ) -> Identity:
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        authority, authority_key = self._ca
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(common_name, organizations), authority.subject, key, valid)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(ca=False), critical=True)
        purpose = x509.OID_SERVER_AUTH if names else x509.OID_CLIENT_AUTH
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
        builder = builder.add_extension(identifier, critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName([_general(n) for n in names]), critical=False)
        key_pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        return Identity(_pem(_signed(builder, authority_key)), key_pem)


def _name(common_name: str, organizations: Sequence[str]) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, o) for o in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, valid: tuple[timedelta, timedelta] = VALID
) -> x509.CertificateBuilder:
    from cryptography import x509

    now = wall_now()
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now + valid[0]).not_valid_after(now + valid[1])


def _signed(builder: x509.CertificateBuilder, key: EllipticCurvePrivateKey) -> x509.Certificate:
    from cryptography.hazmat.primitives import hashes

    return builder.sign(key, hashes.SHA256())


def _usage(*, ca: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=ca,
        crl_sign=ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general(name: str) -> Any:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()
