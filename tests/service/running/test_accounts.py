"""Who may report: by an issuer's token, by a gateway's word, or anybody."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from croupier import wire
from croupier.cli.main import main
from croupier.errors import WireError
from croupier.service.account_settings import AccountPolicy
from croupier.service.http.media_types import ACCOUNT_TOKEN
from croupier.service.keys.keyring import Keyring
from croupier.service.messages.account_tokens import issue_token
from croupier.service.messages.signed_documents import Signer
from croupier.service.settings import read_secret
from croupier.wire import Transport

from .conftest import Deploy
from .deployment import Deployment, Roles, account, altered, made_plan, reason

GATEWAY = Path(__file__).parents[3] / "examples" / "gateway.py"
OTHER_PLAN = "cd" * 16


def roles_with(folder: Path, accounts: AccountPolicy) -> Iterator[Roles]:
    made = Roles.make(folder / accounts.value, made_plan(), Transport.BITS, accounts)
    yield made
    made.close()


@pytest.fixture(scope="module")
def signed(folder: Path) -> Iterator[Roles]:
    yield from roles_with(folder, AccountPolicy.SIGNED)


@pytest.fixture(scope="module")
def gated(folder: Path) -> Iterator[Roles]:
    yield from roles_with(folder, AccountPolicy.GATEWAY)


@pytest.fixture(scope="module")
def issuer(signed: Roles) -> Signer:
    home = signed.directory / "issuer"
    passphrase = read_secret(home / "passphrase", "passphrase").encode()
    return Keyring.open(home / "keys", "issuer", passphrase).signer


def shown(token: str) -> dict[str, dict[str, str]]:
    return {"headers": {ACCOUNT_TOKEN: token}}


def test_a_token_lets_its_own_account_in_and_no_other(
    deploy: Deploy, signed: Roles, issuer: Signer
) -> None:
    services = deploy(roles=signed)
    mine, others = services.record(1), services.record(2)
    token = issue_token(services.plan.id, account(1), issuer)
    for refused in (
        services.post(mine),
        services.post(others, **shown(token)),
        services.post(mine, others, **shown(token)),
        services.post(mine, **shown(token[:-1])),
        services.post(mine, **shown(issue_token(OTHER_PLAN, account(1), issuer))),
        services.post(mine, **shown(issue_token(services.plan.id, account(2), issuer))),
    ):
        assert (refused.status_code, reason(refused)) == (403, "account-token")
        assert "retry-after" not in refused.headers
    assert services.batch_filled() == 0
    assert services.post(mine, **shown(token)).status_code == 201
    assert services.post(mine, **shown(token)).status_code == 201  # idempotent as before
    assert services.batch_filled() == 1
    assert 'croupier_reports_total{reason="account-token"} 6.0' in services.get("/metrics").text


def test_several_reports_of_one_account_go_in_one_request(
    deploy: Deploy, signed: Roles, issuer: Signer
) -> None:
    """The shuffler counts the account as ever: a token is no second place in a batch."""
    services = deploy(roles=signed)
    token = issue_token(services.plan.id, account(1), issuer)
    answer = services.post(services.record(1), services.record(1), **shown(token))
    assert answer.json()["accepted"] == 1
    assert [one["reason"] for one in answer.json()["failures"]] == ["duplicate-user"]


def test_only_who_has_the_upload_token_writes_accounts(deploy: Deploy, gated: Roles) -> None:
    services = deploy(roles=gated)
    token = read_secret(gated.directory / "gateway" / "upload-token", "token")
    refused = services.post(services.record(1))
    assert (refused.status_code, reason(refused)) == (401, "bad-token")
    allowed = {"headers": {"authorization": f"Bearer {token}"}}
    assert services.post(services.record(1), services.record(2), **allowed).status_code == 201


# The example of a gateway


@pytest.fixture
def gateway(gated: Roles, deploy: Deploy) -> tuple[Deployment, Callable[..., httpx.Response]]:
    """The shuffler behind the example; posts through it, as a session."""
    services = deploy(roles=gated)
    make: Any = runpy.run_path(str(GATEWAY))["make_gateway"]
    home = gated.directory / "gateway"
    sessions = {"s1": "alice", "s2": "bob"}
    inner = httpx.AsyncClient(
        transport=httpx.ASGITransport(services.shuffler),
        base_url="http://shuffler",
        headers={"authorization": f"Bearer {read_secret(home / 'upload-token', 'token')}"},
    )
    app = make(
        lambda headers: sessions.get(headers.get("cookie", "")),
        read_secret(home / "account-secret", "secret").encode(),
        services.shuffler.parts.transport.sealed_length,
        inner,
    )

    def ask(method: str, path: str, session: str = "", content: bytes = b"") -> httpx.Response:
        headers = {"cookie": session} if session else {}
        return services.ask(app, method, path, headers=headers, content=content)

    return services, ask


def test_a_gateway_writes_the_account_of_the_session(
    gateway: tuple[Deployment, Callable[..., httpx.Response]],
) -> None:
    services, ask = gateway
    first, again = services.record(1), services.record(2)
    assert ask("POST", services.reports, "s1", first).status_code == 201
    assert ask("POST", services.reports, "s1", first).status_code == 201
    refused = ask("POST", services.reports, "s1", again)  # another account claimed, same session
    assert reason(refused) == "duplicate-user"
    assert ask("POST", services.reports, "s2", again).status_code == 201
    assert services.batch_filled() == 2


def test_a_gateway_takes_nobody_it_does_not_know_and_one_record_at_a_time(
    gateway: tuple[Deployment, Callable[..., httpx.Response]],
) -> None:
    services, ask = gateway
    record = services.record(1)
    assert reason(ask("POST", services.reports, "", record)) == "bad-token"
    assert reason(ask("POST", services.reports, "s9", record)) == "bad-token"
    assert reason(ask("POST", services.reports, "s1", record + record)) == "wrong-length"
    assert reason(ask("POST", services.reports, "s1", record[:-1])) == "wrong-length"
    assert services.batch_filled() == 0


def test_a_gateway_passes_on_what_devices_ask(
    gateway: tuple[Deployment, Callable[..., httpx.Response]],
) -> None:
    services, ask = gateway
    place = f"/v1/plans/{services.plan.id}/batch"
    assert ask("GET", place).json() == services.get(place).json()


def test_an_account_is_replaced_in_exactly_one_record(services: Deployment) -> None:
    record = services.record(1)
    length = len(record) - wire.record_length(0)
    changed = wire.replace_account(record, length, account(2))
    assert changed == altered(record, account=account(2))
    for wrong in (record + record, record + b"x", record[:-1], b""):
        with pytest.raises(WireError):
            wire.replace_account(wrong, length, account(2))


# The command line


def test_issued_tokens_are_good_and_named(
    signed: Roles, issuer: Signer, capsys: pytest.CaptureFixture[str]
) -> None:
    home = signed.directory / "issuer"
    plan = signed.directory / "shuffler" / "plan.json"
    told = ["issue", "--plan", str(plan), "--directory", str(home / "keys")]
    told += ["--passphrase-file", str(home / "passphrase")]
    assert main([*told, "--account", account(1).hex()]) == 0
    line = capsys.readouterr().out.strip()
    assert line == f"{account(1).hex()}  {issue_token(signed.plan.id, account(1), issuer)}"
    assert main([*told, "--count", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len({one.split()[0] for one in lines}) == 3
    for wrong in ([], ["--count", "1", "--account", account(1).hex()], ["--account", "ab"]):
        assert main([*told, *wrong]) == 2
        assert "account" in capsys.readouterr().err


def test_the_issuers_keys_are_made_by_the_same_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "passphrase").write_text("correct horse\n")
    told = ["--role", "issuer", "--directory", str(tmp_path / "keys")]
    told += ["--passphrase-file", str(tmp_path / "passphrase")]
    assert main(["keys", "new", *told]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.split()[:2] == ["sign", "active"]


@pytest.mark.parametrize(
    ("policy", "ok", "words"),
    [
        (AccountPolicy.SIGNED, True, "signed by one of 1 keys"),
        (AccountPolicy.GATEWAY, True, "whoever has the upload token"),
        (AccountPolicy.ANYONE, False, "anybody can fill a batch and read the one honest report"),
    ],
)
def test_doctor_and_status_call_a_policy_what_it_is(
    signed: Roles,
    gated: Roles,
    roles_of: Callable[[Transport], Roles],
    capsys: pytest.CaptureFixture[str],
    policy: AccountPolicy,
    ok: bool,
    words: str,
) -> None:
    made = {AccountPolicy.SIGNED: signed, AccountPolicy.GATEWAY: gated}
    roles = made.get(policy) or roles_of(Transport.BITS)
    config = str(roles.directory / "shuffler" / "settings.toml")
    main(["doctor", "--config", config])
    (line,) = [one for one in capsys.readouterr().out.splitlines() if " accounts " in one]
    assert line.startswith("ok" if ok else "FAIL")
    assert words in line
    main(["status", "--config", config])
    assert ("fill a batch" in capsys.readouterr().out) is not ok
