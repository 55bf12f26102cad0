from __future__ import annotations

import pytest

from croupier.service.http.addresses import require_safe_address


@pytest.mark.parametrize(
    "url",
    [
        "https://shuffler.example.org",
        "https://shuffler.example.org:8443/prefix",
        "http://127.0.0.1:8101",
        "http://127.8.9.1",
        "http://[::1]:8101",
        "http://localhost:8101",
    ],
)
def test_tls_and_this_machine_are_safe(url: str) -> None:
    assert require_safe_address("peer.url", url) == url


@pytest.mark.parametrize(
    "url",
    [
        "http://shuffler.example.org",
        "http://10.0.0.1",
        "http://0.0.0.0",
        "http://localhost.example.org",
        "http://127.0.0.1.example.org",
        "http://localhost@example.org",
        "http://127.0.0.1\\@example.org",
        "http://2130706433",
        "https://user:word@example.org",
        "https://example.org?to=x",
        "https://example.org:port",
        "https://ex\u00e4mple.org",
        "https://",
        "ftp://127.0.0.1",
        "127.0.0.1",
        "",
    ],
)
def test_everything_else_is_refused_by_name_and_value(url: str) -> None:
    with pytest.raises(ValueError, match=r"peer\.url must be") as refused:
        require_safe_address("peer.url", url)
    assert repr(url) in str(refused.value)
