"""Signing and opening: DSSE by securesystemslib, with a key in a file or one that AWS KMS keeps.

Source: github.com/secure-systems-lab/dsse (protocol.md, envelope.md).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from killcheck.proof.errors import ProofError, Refused, SigningError
from killcheck.proof.statement import validated
from killcheck.text.files import bytes_of

if TYPE_CHECKING:
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import Key, Signer

__all__ = ["KMS", "PASSWORD", "opened", "public_key", "signed", "signer_of"]

PAYLOAD_TYPE = "application/vnd.in-toto+json"
#: How a key is named that AWS KMS keeps, and the variable that unlocks a key file.
KMS, PASSWORD = "awskms:", "KILLCHECK_KEY_PASSWORD"
_MISSING = "certificates are signed with securesystemslib: pip install 'killcheck[proof]'"


def signer_of(key: str) -> Signer:
    """What signs: a private key in a PEM file, or ``awskms:KEY``. Raises ProofError, SigningError."""
    return _kms(key.removeprefix(KMS)) if key.startswith(KMS) else _from_file(Path(key))


def signed(statement: dict[str, Any], signer: Signer) -> str:
    """The certificate: one line of JSON. Raises ProofError, SigningError, ValueError for what is no statement."""
    validated(statement)
    try:
        from securesystemslib.dsse import Envelope
        from securesystemslib.exceptions import VerificationError
    except ImportError as error:
        raise ProofError(_MISSING) from error
    payload = json.dumps(statement, sort_keys=True, separators=(",", ":")).encode()
    envelope = Envelope(payload, PAYLOAD_TYPE, {})
    with _kms_errors():
        envelope.sign(signer)
    try:
        envelope.verify([signer.public_key], 1)
    except VerificationError as error:
        raise SigningError("the key signed, and its signature does not fit: nothing was written") from error
    return _written(envelope)


def public_key(file: Path) -> Key:
    """A public key in a PEM file. Raises ProofError, OSError."""
    try:
        from securesystemslib.signer import SSlibKey
    except ImportError as error:
        raise ProofError(_MISSING) from error
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        return SSlibKey.from_crypto(load_pem_public_key(bytes_of(file)))
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ProofError(
            f"{file}: expected a public key in PEM (openssl pkey -pubout): Ed25519, ECDSA on P-256, or RSA"
        ) from error


def opened(file: Path, key: Path) -> tuple[dict[str, Any], str]:
    """The statement in a certificate that this public key's owner signed, and the key's id.

    Raises Refused for anything else, ProofError for what is no key, OSError.
    """
    public = public_key(key)
    envelope = _read(file)
    from securesystemslib.exceptions import VerificationError

    if public.keyid not in envelope.signatures:
        raise Refused(f"{file}: refused: {key} did not sign it, another key did")
    try:
        envelope.verify([public], 1)
    except VerificationError as error:
        raise Refused(f"{file}: refused: it was changed after {key} signed it: the signature does not fit") from error
    try:
        if envelope.payload_type != PAYLOAD_TYPE:
            raise ValueError(f"its payload is {envelope.payload_type}")
        statement = json.loads(envelope.payload)
        validated(statement)
    except (ValueError, TypeError) as error:
        raise Refused(f"{file}: refused: it is signed, and no in-toto statement: {error}") from error
    return statement, public.keyid


def _read(file: Path) -> Envelope:
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import Error

    text = bytes_of(file)
    try:
        envelope = Envelope.from_dict(json.loads(text))
        same = _written(envelope).encode() == text
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, Error) as error:
        raise Refused(
            f"{file}: refused: it is no certificate of killcheck's, or was changed: not a DSSE envelope"
        ) from error
    if not same:  # base64 and JSON can be written in other ways that mean the same: no byte is anybody's to change
        raise Refused(f"{file}: refused: it was changed: this is not how a certificate is written")
    return envelope


def _written(envelope: Envelope) -> str:
    return json.dumps(envelope.to_dict(), sort_keys=True, separators=(",", ":")) + "\n"


def _from_file(file: Path) -> Signer:
    """Raises ProofError for what is no private key, or cannot be read."""
    try:
        from securesystemslib.signer import CryptoSigner
    except ImportError as error:
        raise ProofError(_MISSING) from error
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    password = os.environ.get(PASSWORD)
    try:
        key = load_pem_private_key(bytes_of(file), password.encode() if password else None)
        return CryptoSigner(key)
    except OSError as error:
        raise ProofError(f"{file}: {(error.strerror or str(error)).lower()}: expected a private key in PEM") from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ProofError(
            f"{file}: expected a private key in PEM (openssl genpkey -algorithm ed25519): Ed25519, ECDSA on P-256, or "
            f"RSA; one with a password takes it from {PASSWORD}"
        ) from error


def _kms(key: str) -> Signer:
    """Raises ProofError, SigningError."""
    try:
        from securesystemslib.signer import AWSSigner
    except ImportError as error:
        raise ProofError(_MISSING) from error
    if find_spec("boto3") is None:  # the signer asks KMS with it
        raise ProofError("a key in AWS KMS takes boto3 too: pip install 'killcheck[proof,aws]'")
    with _kms_errors():
        uri, public = AWSSigner.import_(key)
        return AWSSigner.from_priv_key_uri(uri, public)


@contextmanager
def _kms_errors() -> Iterator[None]:
    """What AWS answers, as SigningError."""
    try:
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:  # without it nobody asks AWS
        yield
        return
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise SigningError(f"AWS KMS did not sign: {error}") from error
