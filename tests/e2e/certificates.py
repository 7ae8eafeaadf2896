# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests: an authority, and what it vouches for. By cryptography, which shares no code with Berth."""

import datetime
import os

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def _name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def pem_of_key(key, passphrase=None):
    hidden = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden)


def write_private(path, data):
    """Whole or not at all, as those who renew certificates do."""
    new = path.with_suffix(".new")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
    os.replace(new, path)


class Authority:
    """Its own certificate is in `file`."""

    def __init__(self, folder):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._sign(_name("test authority"), _name("test authority"), self.key, True)
        self.file = folder / "authority.pem"
        self.file.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def _sign(self, subject, issuer, key, is_authority, names=(), days=30):
        now = datetime.datetime.now(datetime.timezone.utc)
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=60))
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            # RFC 5280 wants these; Python has insisted on them since 3.13.
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )
        if is_authority:
            uses = dict.fromkeys(("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only", "decipher_only"), False)
            made = made.add_extension(x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, **uses), critical=True)
        if names:
            made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return made.sign(self.key, hashes.SHA256())

    def issue(self, *names, key=None, days=30):
        """(certificate, its PEM, key) for DNS names."""
        key = key or ec.generate_private_key(ec.SECP256R1())
        made = self._sign(_name(names[0]), self.certificate.subject, key, False, [x509.DNSName(name) for name in names], days)
        return made, made.public_bytes(serialization.Encoding.PEM), key
