"""The server's address and API key, and the options for its channel."""

import ipaddress
import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import grpc

__version__ = "0.0.0"  # `make` replaces this with the release version when it builds the package

# Health checks detect a draining server, and pings detect a dead server. gRPC does not retry calls, because this package does.
OPTIONS: tuple[tuple[str, Any], ...] = (
    ("grpc.enable_retries", 0),
    ("grpc.service_config", '{"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": ""}}'),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.ping_timeout_ms", 5_000),
    ("grpc.max_receive_message_length", 8 << 20),
    ("grpc.primary_user_agent", "easel-python/" + __version__),
)


class APIKey:
    """The API key of a client.

    If the key comes from a file, each call reads the file again. If the file can't be read or has no valid key, the call uses
    the last valid key.
    """

    def __init__(self, api_key: str, file: str = "") -> None:
        self._file = file
        self._api_key = _read(file) if file else _checked(api_key.strip())

    def __bool__(self) -> bool:
        return self._api_key != ""

    def header(self) -> tuple[str, str]:
        """Returns the header with the API key."""
        if self._file:
            try:
                self._api_key = _read(self._file)
            except (OSError, ValueError):
                pass
        return ("authorization", "Bearer " + self._api_key)


def _read(file: str) -> str:
    with open(file, encoding="utf-8") as text:
        api_key = text.read().strip()
    if not api_key:
        raise ValueError(f"EASEL_API_KEY_FILE: no API key in {file}")
    return _checked(api_key)


def _checked(api_key: str) -> str:
    if not re.fullmatch("[!-~]*", api_key):
        raise ValueError("the API key contains a space, a line break or another invalid character")
    return api_key


class Connection(NamedTuple):
    """The parameters for a channel."""

    target: str
    credentials: grpc.ChannelCredentials | None  # credentials of the channel; None means plaintext
    options: Sequence[tuple[str, Any]]
    key: "APIKey | None"


def connection(
    address: str | None, api_key: str | None, credentials: grpc.ChannelCredentials | None,
    allow_plaintext: bool | None, options: Sequence[tuple[str, Any]],
) -> Connection:  # fmt: skip
    """Returns the parameters for a channel to the server. It raises a ValueError if a setting is invalid."""
    address = os.environ.get("EASEL_ADDR", "").strip() or "localhost:50051" if address is None else address
    file = os.environ.get("EASEL_API_KEY_FILE", "") if api_key is None else ""
    key = APIKey(os.environ.get("EASEL_API_KEY", "") if api_key is None else api_key, file)
    scheme, host, port = _parts(address)
    roots = os.environ.get("EASEL_TLS_CA_FILE", "")
    if roots and credentials is None:
        credentials = _trusting(roots)
    plaintext = scheme == "http" or (not scheme and _is_loopback(host) and credentials is None)
    if plaintext and credentials is not None:
        raise ValueError("credentials and EASEL_TLS_CA_FILE have no effect if the address has http://; use https://")
    if allow_plaintext is None:
        allow_plaintext = os.environ.get("EASEL_ALLOW_PLAINTEXT") == "true"
    if plaintext and key and not (_is_loopback(host) or allow_plaintext):
        allowing = "set allow_plaintext=True or EASEL_ALLOW_PLAINTEXT=true if a mesh or tunnel encrypts the connection"
        raise ValueError(f"the API key would be sent to {host} without TLS; use https://, or {allowing}")
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    # Without this option, gRPC would connect to loopback addresses through the proxy that the environment sets.
    direct = [("grpc.enable_http_proxy", 0)] if _is_loopback(host) else []
    return Connection(target, None if plaintext else credentials or grpc.ssl_channel_credentials(), [*OPTIONS, *direct, *options], key or None)


def _trusting(file: str) -> grpc.ChannelCredentials:
    """Returns credentials that trust only the PEM certificates in a file."""
    with open(file, "rb") as text:
        roots = text.read()
    if b"-----BEGIN CERTIFICATE-----" not in roots:
        raise ValueError(f"EASEL_TLS_CA_FILE: no PEM certificate in {file}")
    return grpc.ssl_channel_credentials(roots)


def _parts(address: str) -> tuple[str, str, int]:
    parts = re.fullmatch(r"(?:((?i:https?))://)?(?:\[([\da-fA-F:.]+)\]|([\w.-]+))(?::(\d{1,5}))?/?", address.strip())
    scheme, six, name, port = parts.groups() if parts else ("", "", "", "")
    scheme = (scheme or "").lower()
    number = int(port or {"http": 80, "https": 443}.get(scheme, 0))
    if not 0 < number < 65536:
        shown = "" if "@" in address else f", not {address!r}"
        raise ValueError(f"the address must be host:port, http://host:port or https://host:port{shown}")
    return scheme, six or name, number


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
