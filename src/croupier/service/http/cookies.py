"""No cookies: what one answer sets, no later request brings back."""

from __future__ import annotations

from http.cookiejar import Cookie, CookieJar, CookiePolicy
from urllib.request import Request


class RefusedCookies(CookiePolicy):
    """Takes none and returns none."""

    netscape, rfc2965, hide_cookie2 = True, False, True

    def set_ok(self, cookie: Cookie, request: Request) -> bool:
        """Nothing is stored."""
        return False

    def return_ok(self, cookie: Cookie, request: Request) -> bool:
        """Nothing is sent."""
        return False


def refuse_cookies(jar: CookieJar) -> None:
    """Whoever uses the jar keeps no cookies from here on."""
    jar.set_policy(RefusedCookies())
