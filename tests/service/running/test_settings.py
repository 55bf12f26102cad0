"""Settings are read strictly: whatever is wrong is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from croupier.service.account_settings import AccountPolicy
from croupier.service.admin.deployment_files import write_deployment
from croupier.service.settings import (
    Role,
    ShortBatchPolicy,
    read_secret,
    read_settings,
    token_hash,
)
from croupier.service.toml_tables import SettingsError
from croupier.service.witness.settings import read_configuration
from croupier.wire import Transport

from .deployment import Roles, made_plan

SHUFFLER = """
role = "shuffler"
plan = "plan.json"
database = "shuffler.db"
[keys]
directory = "keys"
passphrase_file = "/secrets/passphrase"
[peer]
url = "https://analyzer.example"
signing_key_file = "analyzer-key"
token_file = "token"
"""
ANYONE = """
[accounts]
policy = "anyone"
"""
SHUFFLER += ANYONE

ANALYZER = f"""
role = "analyzer"
plan = "plan.json"
database = "postgresql://croupier@db/analyzer"
[keys]
directory = "keys"
passphrase_file = "passphrase"
[peer]
signing_key = "{"ab" * 32}"
[access]
token_hash = "{"0" * 64}"
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text(text)
    return path


def test_defaults_are_safe_and_paths_relative_to_the_file(tmp_path: Path) -> None:
    found = read_settings(written(tmp_path, SHUFFLER))
    assert found.role is Role.SHUFFLER
    assert found.plan == tmp_path / "plan.json"
    assert found.database == str(tmp_path / "shuffler.db")
    assert found.keys.passphrase_file == Path("/secrets/passphrase")
    assert (found.listen.host, found.transport) == ("127.0.0.1", Transport.BITS)
    assert found.batches.short is ShortBatchPolicy.WAIT
    assert (found.log_level, found.console) == ("info", True)


@pytest.mark.parametrize(("cores", "openers"), [(1, 0), (2, 1), (5, 4), (64, 4)])
def test_helpers_are_as_many_as_cores_to_spare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int, openers: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: set(range(cores)))
    assert read_settings(written(tmp_path, SHUFFLER)).limits.openers == openers
    told = SHUFFLER + "[limits]\nopeners = 0"
    assert read_settings(written(tmp_path, told)).limits.openers == 0


def test_a_url_of_postgresql_is_left_alone(tmp_path: Path) -> None:
    found = read_settings(written(tmp_path, ANALYZER))
    assert found.database == "postgresql://croupier@db/analyzer"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rôle =", "cannot read"),
        (SHUFFLER + "colour = 1", "unknown key 'accounts.colour'"),
        ("colour = 1\n" + SHUFFLER, "unknown key 'colour'; known here: role, plan"),
        (SHUFFLER + "[limits]\nqueue = 1", "unknown key 'limits.queue'; known here: connections"),
        (SHUFFLER.replace('plan = "plan.json"', ""), "missing key 'plan'"),
        (SHUFFLER.replace('directory = "keys"', ""), "missing key 'keys.directory'"),
        (
            SHUFFLER.replace('"shuffler"', '"shuffle"', 1),
            "role must be one of shuffler, analyzer, got 'shuffle'",
        ),
        (
            'transport = "bit"' + SHUFFLER,
            "transport must be one of bits, shares, sealed, got 'bit'",
        ),
        ("keys = 3\n" + ANALYZER.replace("[keys]", "[key]"), "unknown key 'key'"),
        ("listen = 3" + SHUFFLER, "listen must be a table, got 3"),
        (
            SHUFFLER + '[listen]\nport = "80"',
            "listen.port must be a whole number of at least 0, got '80'",
        ),
        (SHUFFLER + "[listen]\nport = 65536", "listen.port must be below 65536, got 65536"),
        (SHUFFLER + "[listen]\nport = true", "listen.port must be a whole number"),
        (SHUFFLER + "[limits]\nqueue_length = 0", "limits.queue_length must be at least 1, got 0"),
        (
            SHUFFLER + "[limits]\nbody_bytes = -1",
            "limits.body_bytes must be a whole number of at least 0, got -1",
        ),
        (SHUFFLER + "[limits]\nconnections = 0", "limits.connections must be at least 1, got 0"),
        (
            SHUFFLER + "[limits]\nheader_seconds = 0",
            "limits.header_seconds must be above 0, got 0.0",
        ),
        (
            SHUFFLER + "[limits]\nheld_bytes = 10",
            "limits.held_bytes must be at least limits.body_bytes, got 10",
        ),
        (SHUFFLER + "[limits]\nopeners = 65", "limits.openers must be 0 to 64, got 65"),
        (
            SHUFFLER + "[limits]\nopeners = -1",
            "limits.openers must be a whole number of at least 0, got -1",
        ),
        ('console = "yes"' + SHUFFLER, "console must be true or false, got 'yes'"),
        ('log_level = "loud"' + SHUFFLER, "log_level must be one of debug, info"),
        (SHUFFLER.replace('"plan.json"', "7"), "plan must be text, got 7"),
        (SHUFFLER.replace('"plan.json"', '""'), "plan must be text, got ''"),
        (
            SHUFFLER + '[batches]\nshort = "guess"',
            "batches.short must be one of wait, pad, drop, got 'guess'",
        ),
        (SHUFFLER + "[batches]\nfloor = 0", "batches.floor must be above 0 and at most 1, got 0.0"),
        (SHUFFLER + '[batches]\nfloor = "half"', "batches.floor must be a number, got 'half'"),
        (SHUFFLER + "[batches]\nfloor = nan", "batches.floor must be a number, got nan"),
        (SHUFFLER + "[batches]\nafter_seconds = -1.0", "batches.after_seconds must be at least 0"),
        (
            SHUFFLER + "[courier]\nlease = 10",
            "courier.lease must be longer than courier.timeout, got 10.0 and 30.0",
        ),
        (
            SHUFFLER.replace("https://", "ftp://"),
            "peer.url must be an https address, got 'ftp://",
        ),
        (
            SHUFFLER.replace("https://", "http://"),
            "peer.url must be https unless it is loopback, got 'http://",
        ),
        (
            SHUFFLER.replace('token_file = "token"', ""),
            "a shuffler needs peer.url and peer.token_file",
        ),
        (
            SHUFFLER.replace(ANYONE, 'signing_key = "ab"' + ANYONE),
            "one of signing_key and signing_key_file",
        ),
        (SHUFFLER.replace(ANYONE, ""), 'accounts.policy must be said: "signed" (every upload'),
        (SHUFFLER.replace(ANYONE, "[accounts]"), "can fill a batch and read the one honest report"),
        (SHUFFLER.replace("anyone", "any"), "accounts.policy must be one of signed, gateway"),
        (SHUFFLER.replace("anyone", "gateway"), "needs access.token_hash: whoever has the token"),
        (SHUFFLER.replace("anyone", "signed"), "accounts needs one of issuer_key and issuer_key_f"),
        (
            SHUFFLER + 'issuer_key = "ab"',
            "accounts.issuer_key is for the policy signed, got 'anyone'",
        ),
        (SHUFFLER + "new_per_batch = 0", "accounts.new_per_batch must be at least 1, got 0"),
        (
            SHUFFLER.replace('signing_key_file = "analyzer-key"', ""),
            "one of signing_key and signing_key_file",
        ),
        (
            ANALYZER.replace("0" * 64, "secret"),
            "access.token_hash must be 64 lower-case hex digits",
        ),
        (ANALYZER.partition("[access]")[0], "an analyzer needs access.token_hash"),
        (
            ANALYZER + '[batches]\nshort = "pad"',
            "unknown key 'batches': an analyzer takes batches as they come",
        ),
        (ANALYZER + "[courier]\nevery = 1.0", "unknown key 'courier'"),
        (ANALYZER + ANYONE, "unknown key 'accounts'"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(tmp_path: Path, text: str, words: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(SettingsError) as found:
        read_settings(path)
    assert words in str(found.value)
    assert str(path) in str(found.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot read .*none\.toml: No such file"):
        read_settings(tmp_path / "none.toml")


def test_secrets_that_others_can_read_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("secret\n")
    for mode in (0o644, 0o604, 0o602):
        path.chmod(mode)
        words = f"can be read or written by others, mode {mode:o}; run: chmod 600"
        with pytest.raises(SettingsError, match=words):
            read_secret(path, "token")
    for mode in (0o620, 0o660):
        path.chmod(mode)
        with pytest.raises(SettingsError, match=f"can be written by its group, mode {mode:o}; run"):
            read_secret(path, "token")
    for mode in (0o600, 0o400, 0o440, 0o640):
        path.chmod(mode)
        assert read_secret(path, "token") == "secret"
    path.chmod(0o600)
    path.write_text(" \n")
    with pytest.raises(SettingsError, match="is empty"):
        read_secret(path, "token")
    with pytest.raises(SettingsError, match="cannot read the token"):
        read_secret(tmp_path / "none", "token")


def test_a_secret_is_found_behind_the_links_that_kubernetes_mounts(tmp_path: Path) -> None:
    """The links are open to all; what counts is the file."""
    data = tmp_path / "..2026"
    data.mkdir()
    (data / "token").write_text("secret\n")
    (tmp_path / "..data").symlink_to(data)
    (tmp_path / "token").symlink_to(Path("..data") / "token")
    (data / "token").chmod(0o440)
    assert read_secret(tmp_path / "token", "token") == "secret"
    (data / "token").chmod(0o444)
    with pytest.raises(SettingsError, match="mode 444"):
        read_secret(tmp_path / "token", "token")


def test_a_layout_gives_each_role_its_own_and_the_analyzer_no_token(
    tmp_path: Path, roles_of: Callable[[Transport], Roles]
) -> None:
    directory = roles_of(Transport.BITS).directory
    shuffler, analyzer = (
        read_settings(directory / role / "settings.toml") for role in ("shuffler", "analyzer")
    )
    assert shuffler.database != analyzer.database
    assert shuffler.keys.directory != analyzer.keys.directory
    assert shuffler.peer.token_file is not None
    token = read_secret(shuffler.peer.token_file, "token")
    assert analyzer.access.token_hash == token_hash(token)
    held = b"".join(
        one.read_bytes() for one in (directory / "analyzer").rglob("*") if one.is_file()
    )
    assert token.encode() not in held
    for path in directory.rglob("*"):
        if path.is_file() and ".db" not in path.name:
            assert path.stat().st_mode & 0o077 == 0


def test_a_layout_overwrites_nothing(roles_of: Callable[[Transport], Roles]) -> None:
    roles = roles_of(Transport.BITS)
    with pytest.raises(FileExistsError):
        write_deployment(
            roles.directory, made_plan(), Transport.BITS, accounts=AccountPolicy.ANYONE
        )


# From the environment


def test_variables_go_before_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, SHUFFLER + "[listen]\nport = 1\n")
    found = read_settings(
        path,
        {
            "CROUPIER_DATABASE": "other.db",
            "CROUPIER_LISTEN__PORT": "8080",
            "CROUPIER_PEER__URL": "http://127.0.0.1:8102",
            "CROUPIER_PEER__TOKEN_FILE": "/run/secrets/token",
            "CROUPIER_KEYS__DIRECTORY": "elsewhere",
            "CROUPIER_BATCHES__SHORT": "pad",
            "CROUPIER_BATCHES__FLOOR": "0.5",
            "CROUPIER_COURIER__LEASE": "90",
            "CROUPIER_CONSOLE": "false",
            "CROUPIER_LOG_LEVEL": "debug",
            "PATH": "/bin",
        },
    )
    assert found.database == str(tmp_path / "other.db")
    assert (found.listen.host, found.listen.port) == ("127.0.0.1", 8080)
    assert found.peer.url == "http://127.0.0.1:8102"
    assert found.peer.token_file == Path("/run/secrets/token")
    assert found.keys.directory == tmp_path / "elsewhere"
    assert (found.batches.short, found.batches.floor) == (ShortBatchPolicy.PAD, 0.5)
    assert (found.courier.lease, found.console, found.log_level) == (90.0, False, "debug")


def test_variables_supply_what_the_file_leaves_out(tmp_path: Path) -> None:
    path = written(tmp_path, ANALYZER.partition("[access]")[0])
    found = read_settings(path, {"CROUPIER_ACCESS__TOKEN_HASH": "1" * 64})
    assert found.access.token_hash == "1" * 64


def test_what_kubernetes_sets_for_services_of_our_name_is_no_setting(tmp_path: Path) -> None:
    path = written(tmp_path, SHUFFLER)
    links: dict[str, str] = {}
    for name in ("CROUPIER", "CROUPIER_SHUFFLER", "CROUPIER_MY_ANALYZER"):
        links |= {
            f"{name}_SERVICE_HOST": "10.0.0.1",
            f"{name}_SERVICE_PORT": "8101",
            f"{name}_SERVICE_PORT_HTTP": "8101",
            f"{name}_PORT": "tcp://10.0.0.1:8101",
            f"{name}_PORT_8101_TCP": "tcp://10.0.0.1:8101",
            f"{name}_PORT_8101_TCP_PROTO": "tcp",
            f"{name}_PORT_8101_TCP_PORT": "8101",
            f"{name}_PORT_53_UDP_ADDR": "10.0.0.1",
        }
    found = read_settings(path, links | {"CROUPIER_LISTEN__PORT": "8080"})
    assert found == read_settings(path, {"CROUPIER_LISTEN__PORT": "8080"})


def test_the_variables_are_those_of_this_process_unless_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, SHUFFLER)
    monkeypatch.setenv("CROUPIER_LISTEN__PORT", "7")
    assert read_settings(path).listen.port == 7
    assert read_settings(path, {}).listen.port == 0


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("LISTEN__PROT", "80", "CROUPIER_LISTEN__PROT is not a setting; known here: CROUPIER_LIST"),
        ("COLOUR", "1", "CROUPIER_COLOUR is not a setting; known here: CROUPIER_ROLE"),
        ("LISTEN_PORT", "80", "CROUPIER_LISTEN_PORT is not a setting"),
        ("LISTEN__PORT__MORE", "80", "CROUPIER_LISTEN__PORT__MORE is not a setting"),
        ("Listen__port", "80", "CROUPIER_Listen__port is not a setting"),
        ("", "80", "CROUPIER_ is not a setting"),
        ("LISTEN", "80", "CROUPIER_LISTEN is a whole table; known there: CROUPIER_LISTEN__HOST"),
        (
            "LISTEN__PORT",
            "http",
            "listen.port must be a whole number of at least 0, got 'http', from CROUPIER_LISTEN__P",
        ),
        ("LISTEN__PORT", "-1", "least 0, got -1, from CROUPIER_LISTEN__PORT"),
        ("LISTEN__PORT", "8.5", "least 0, got 8.5, from CROUPIER_LISTEN__PORT"),
        ("LISTEN__PORT", "70000", "below 65536, got 70000, from CROUPIER_LISTEN__PORT"),
        ("CONSOLE", "yes", "must be true or false, got 'yes', from CROUPIER_CONSOLE"),
        ("BATCHES__FLOOR", "nan", "must be a number, got nan, from CROUPIER_BATCHES__FLOOR"),
        ("BATCHES__SHORT", "guess", "pad, drop, got 'guess', from CROUPIER_BATCHES__SHORT"),
        ("DATABASE", "", "database must be text, got '', from CROUPIER_DATABASE"),
        ("PEER__URL", "ftp://x", "address, got 'ftp://x', from CROUPIER_PEER__URL"),
    ],
)
def test_a_variable_that_is_wrong_is_named_and_shown(
    tmp_path: Path, variable: str, value: str, words: str
) -> None:
    path = written(tmp_path, SHUFFLER)
    with pytest.raises(SettingsError) as found:
        read_settings(path, {f"CROUPIER_{variable}": value})
    assert words in str(found.value)
    assert str(path) in str(found.value)


def test_an_analyzer_is_told_nothing_of_batches_by_a_variable_either(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"takes batches .*, from CROUPIER_BATCHES__SHORT"):
        read_settings(written(tmp_path, ANALYZER), {"CROUPIER_BATCHES__SHORT": "pad"})


def test_an_error_in_the_file_is_not_blamed_on_a_variable(tmp_path: Path) -> None:
    path = written(tmp_path, SHUFFLER.replace('"plan.json"', "7") + "[listen]\nport = 70000")
    with pytest.raises(SettingsError) as found:
        read_settings(path, {"CROUPIER_LISTEN__HOST": "::1", "CROUPIER_DATABASE": "plan"})
    assert "from CROUPIER" not in str(found.value)


def test_a_table_that_is_no_table_is_refused_beside_its_variable(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="listen must be a table, got 3"):
        read_settings(written(tmp_path, "listen = 3" + SHUFFLER), {"CROUPIER_LISTEN__PORT": "1"})


def test_a_witness_has_variables_too(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(
        """
        plan = "plan.json"
        directory = "heads"
        [keys]
        directory = "keys"
        passphrase_file = "passphrase"
        [shuffler]
        url = "https://shuffler.example"
        signing_key_file = "shuffler-key"
        [analyzer]
        signing_key_file = "analyzer-key"
        """
    )
    told = {"CROUPIER_ANALYZER__URL": "https://analyzer.example", "CROUPIER_EVERY": "2"}
    found = read_configuration(path, told)
    assert (found.analyzer.url, found.every) == ("https://analyzer.example", 2.0)
    with pytest.raises(SettingsError, match="CROUPIER_DATABASE is not a setting"):
        read_configuration(path, told | {"CROUPIER_DATABASE": "x"})
    with pytest.raises(SettingsError, match="got 'soon', from CROUPIER_EVERY"):
        read_configuration(path, told | {"CROUPIER_EVERY": "soon"})
