"""Who may ask: the token, the names by which the server is called, and the pages whose scripts may call it.

A server on loopback without a token trusts this machine, but not the web pages that are open in its browser. A page
of a stranger can send requests to 127.0.0.1, and can give its own name the address 127.0.0.1 (DNS rebinding). So
requests must call the server by a name of its own, and what costs work must come from its own page.
"""

import base64
import binascii
import hmac
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tagloom.errors import TagloomError

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
MIN_TOKEN = 16
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "media-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=()",
}


@dataclass(frozen=True)
class Access:
    """Who may ask a server.

    Attributes:
        host: The address it listens on.
        token: What requests must carry; None on loopback only.
        origins: Pages of other servers whose scripts may call it.
        open_paths: Paths that need no token: what a load balancer asks, and the page itself, which holds no secrets.
    """

    host: str = "127.0.0.1"
    token: str | None = field(default=None, repr=False)
    origins: tuple[str, ...] = ()
    open_paths: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.token is None and not is_loopback(self.host):
            raise TagloomError(
                f"{self.host} can be reached from other machines, so requests must carry a token. Choose one of at "
                f'least {MIN_TOKEN} characters: --token "$(openssl rand -hex 16)"'
            )
        if self.token is not None and (len(self.token) < MIN_TOKEN or not self.token.isascii() or " " in self.token):
            raise TagloomError(
                f"the token must have at least {MIN_TOKEN} ASCII characters and no spaces, so that nobody guesses it: "
                '--token "$(openssl rand -hex 16)"'
            )
        for origin in self.origins:
            parts = urlsplit(origin)
            if (
                parts.scheme not in ("http", "https")
                or not parts.netloc
                or f"{parts.scheme}://{parts.netloc}" != origin
            ):
                raise TagloomError(
                    f"--cors {origin}: write an origin as https://name or http://name:port, without a path."
                )

    def refuse(self, method: str, path: str, headers: Headers) -> tuple[int, str] | None:
        """Say why a request is not answered, with its status; None if it may be."""
        if self.token is None and _host_name(headers.get("host", "")) not in LOOPBACK_NAMES | {self.host}:
            return 421, "this server answers to localhost only. Behind a proxy, start it with --token."
        origin = headers.get("origin")
        if method not in ("GET", "HEAD", "OPTIONS") and not self._may_post(origin, headers):
            return 403, "pages of other sites may not call this server. To allow one, start it with --cors ORIGIN."
        if self.token is not None and path not in self.open_paths and method != "OPTIONS":
            given = _given_token(headers.get("authorization", ""))
            if not hmac.compare_digest(given.encode(), self.token.encode()):
                return 401, "this server wants its token: send the header 'Authorization: Bearer TOKEN'."
        return None

    def _may_post(self, origin: str | None, headers: Headers) -> bool:
        if origin is None:
            return headers.get("sec-fetch-site", "none") in ("same-origin", "none")
        return origin in self.origins or urlsplit(origin).netloc == headers.get("host", "")


class Guard:
    """Answers for the server where `Access` refuses, and adds the headers that keep its page safe."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app = app
        self.access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refused = self.access.refuse(scope["method"], scope["path"], Headers(scope=scope))
        if refused is None:
            await self.app(scope, receive, with_headers)
            return
        code, message = refused
        extra = {"WWW-Authenticate": 'Bearer realm="tagloom"'} if code == 401 else {}
        await JSONResponse({"error": message}, code, extra | {"Connection": "close"})(scope, receive, with_headers)


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _host_name(host: str) -> str:
    """Cut the port from a Host header."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower().rstrip(".")


def _given_token(authorization: str) -> str:
    """Read the token: after "Bearer", or as the password of Basic, which is all that Label Studio can send."""
    kind, _, value = authorization.partition(" ")
    if kind.lower() == "bearer":
        return value.strip()
    if kind.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode("utf-8", "replace").partition(":")[2]
        except (binascii.Error, ValueError):
            return ""
    return ""
