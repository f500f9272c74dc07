"""How long a certificate holds, read from its DER form; the one thing of X.509 that is needed here.

RFC 5280: Certificate ::= SEQUENCE { tbsCertificate SEQUENCE { [0] version OPTIONAL, serialNumber, signature, issuer,
validity SEQUENCE { notBefore Time, notAfter Time }, ... } ... }, with Time a UTCTime or a GeneralizedTime.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_SEQUENCE, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18

LONGEST_MARGIN = timedelta(days=30)
"""A certificate is renewed when a third of its life, or this much of it, is left."""


@dataclass(frozen=True)
class Validity:
    """From when to when a certificate holds."""

    start: datetime
    end: datetime

    def due(self, now: datetime) -> bool:
        """Say whether it is time to renew."""
        return now >= self.end - min(LONGEST_MARGIN, (self.end - self.start) / 3)


def validity(pem: str) -> Validity | None:
    """Return the validity of a PEM certificate, None for anything that is none."""
    try:
        certificate = _content(ssl.PEM_cert_to_DER_cert(pem.strip()), 0, _SEQUENCE)
        fields = _content(certificate, 0, _SEQUENCE)
        # Before the validity: version (optional), serial number, signature algorithm, issuer.
        position = 0
        for _ in range(4 if fields[0] == _VERSION else 3):
            position = _element(fields, position)[2]
        times = _content(fields, position, _SEQUENCE)
        _, _, after_start = _element(times, 0)
        return Validity(_time(times, 0), _time(times, after_start))
    except (ValueError, IndexError):
        return None


def _element(data: bytes, position: int) -> tuple[int, bytes, int]:
    """Return tag, content and end of the element at `position`."""
    tag, length, start = data[position], data[position + 1], position + 2
    if length & 0x80:
        size = length & 0x7F
        length, start = int.from_bytes(data[start : start + size]), start + size
    end = start + length
    if end > len(data):
        raise ValueError("an element ends after its container")
    return tag, data[start:end], end


def _content(data: bytes, position: int, tag: int) -> bytes:
    found, content, _ = _element(data, position)
    if found != tag:
        raise ValueError(f"tag {found:#x} where {tag:#x} belongs")
    return content


def _time(data: bytes, position: int) -> datetime:
    tag, content, _ = _element(data, position)
    if tag not in {_UTC_TIME, _GENERALIZED_TIME}:
        raise ValueError(f"tag {tag:#x} is not a time")
    digits = content.decode("ascii").removesuffix("Z")
    if tag == _UTC_TIME:
        digits = ("20" if digits < "50" else "19") + digits
    return datetime.strptime(digits, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
