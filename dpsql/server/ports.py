"""A port to listen on; or in words why there is none."""

from __future__ import annotations

import socket

from dpsql.core.errors import PolicyError


def open_port(host: str, port: int, setting: str) -> socket.socket:
    """A socket that listens; PolicyError where it can't. setting: what names the port. 0: any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError:
        raise PolicyError(
            f"{setting}: the server can't listen on {host}, port {port}",
            code="server-port",
            hint="something else may listen there: name another port, or 0 for any that is free",
        ) from None
