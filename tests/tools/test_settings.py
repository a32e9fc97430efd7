"""Settings from the environment, and what only the whole configuration can tell."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from adapter.cli.configuration import DevSettings
from adapter.errors import ConfigurationError
from adapter.main import assemble
from adapter.settings import Settings, load
from adapter.tools.catalog import Catalog
from tests.support.adapter import Mcp, form, tool, until
from tests.support.memory import MemoryEngine, MemoryStore


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in os.environ if each.startswith("ADAPTER_")]:
        monkeypatch.delenv(name)


@pytest.mark.requirement("R-31")
def test_without_any_setting_only_loopback_is_served() -> None:
    settings = Settings()

    assert settings.allowed_hosts == ("localhost", "127.0.0.1", "[::1]")
    assert (settings.allowed_origins, settings.keys) == ((), ())
    assert (settings.tools, settings.table, settings.path) == (Path("tools.yaml"), "mcp-tasks", "/mcp")


@pytest.mark.requirement("B-03")
def test_settings_come_from_the_environment_with_lists_by_comma(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {
        "TOOLS": "/etc/tools.yaml",
        "TABLE": "tasks",
        "PATH": "/Prod/mcp",
        "SIGNING_KEYS": f" {'a' * 32} ,{'b' * 40},",
        "ALLOWED_HOSTS": "a.example.com,b.example.com , ",
        "ALLOWED_ORIGINS": "https://a.example.com",
        "MAX_BODY_BYTES": "1000",
        "PAGE_SIZE": "7",
        "REFRESH_MIN": "0.5",
    }
    for name, value in values.items():
        monkeypatch.setenv(f"ADAPTER_{name}", value)

    settings = Settings()

    assert (settings.tools, settings.table, settings.path) == (Path("/etc/tools.yaml"), "tasks", "/Prod/mcp")
    assert settings.keys == (b"a" * 32, b"b" * 40)
    assert settings.allowed_hosts == ("a.example.com", "b.example.com")
    assert settings.allowed_origins == ("https://a.example.com",)
    assert (settings.max_body_bytes, settings.page_size, settings.refresh_min) == (1000, 7, 0.5)


@pytest.mark.parametrize("written", ["", " ", ",", " , "])
def test_an_empty_list_is_empty(monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    monkeypatch.setenv("ADAPTER_SIGNING_KEYS", written)

    assert Settings().signing_keys == ()


def test_unknown_variables_are_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADAPTER_SOMETHING_ELSE", "1")

    Settings()


def test_keys_are_not_shown() -> None:
    assert "kkkk" not in repr(Settings(signing_keys="k" * 32))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"signing_keys": "short"}, "at least 32 characters"),
        ({"signing_keys": f"{'a' * 32},short"}, "at least 32 characters"),
        ({"path": "mcp"}, "starts with /"),
        ({"path": "/mcp/"}, "does not end with /"),
        ({"path": "/"}, "does not end with /"),
        ({"page_size": 0}, "greater than 0"),
        ({"page_size": 1001}, "1000"),
        ({"page_size": "many"}, "integer"),
        ({"max_body_bytes": 0}, "greater than 0"),
        ({"list_ttl_ms": -1}, "greater than or equal to 0"),
        ({"max_ttl": 0}, "greater than 0"),
        ({"inline_wait_limit": -1}, "greater than or equal to 0"),
        ({"refresh_min": 0}, "greater than 0"),
        ({"refresh_max": 0}, "greater than 0"),
        ({"describe_rate": 0}, "greater than 0"),
        ({"describe_burst": 0}, "greater than or equal to 1"),
        ({"watch_max": 0}, "greater than 0"),
        ({"allowed_hosts": 5}, "tuple"),
    ],
)
def test_a_wrong_setting_is_refused(values: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says) as caught:
        Settings(**values)

    assert caught.value.errors()[0]["loc"][0] in values


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ({"PAGE_SIZE": "0"}, "ADAPTER_PAGE_SIZE: Input should be greater than 0"),
        ({"SIGNING_KEYS": "short"}, "ADAPTER_SIGNING_KEYS: each signing key needs at least 32 characters"),
    ],
)
def test_a_wrong_setting_is_told_by_its_variable(
    written: dict[str, str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in written.items():
        monkeypatch.setenv(f"ADAPTER_{name}", value)
    with pytest.raises(ConfigurationError) as refused:
        load(Settings)
    assert str(refused.value) == says


def test_a_wrong_part_of_a_setting_is_told_by_its_variable_too() -> None:
    with pytest.raises(ConfigurationError, match=r"^ADAPTER_ALLOWED_HOSTS: Input should be a valid string$"):
        load(Settings, allowed_hosts=(5,))


def test_what_is_given_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADAPTER_TABLE", "other")
    assert load(Settings, table="mine").table == "mine"


def test_without_a_key_nothing_is_assembled() -> None:
    with pytest.raises(ConfigurationError, match="no signing key is set: set ADAPTER_SIGNING_KEYS"):
        assemble(Settings(), Catalog([tool()]), {}, MemoryStore(), MemoryEngine(), keys=())


@pytest.mark.parametrize("written", [None, "", " , "])
def test_dev_makes_a_key_where_none_is_given(monkeypatch: pytest.MonkeyPatch, written: str | None) -> None:
    if written is not None:
        monkeypatch.setenv("ADAPTER_SIGNING_KEYS", written)
    assert len(DevSettings().keys) == 1
    assert DevSettings().keys != DevSettings().keys


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Settings().table = "other"  # type: ignore[misc]


# --- settings and tools together ------------------------------------------------------------------------


@pytest.mark.requirement("R-120")
def test_a_tool_that_keeps_tasks_longer_than_the_limit_stops_start_up() -> None:
    long = tool(timeout="80d", retention="20d")

    with pytest.raises(
        ConfigurationError, match=r"tools\.yaml: tool 'job': .* limit of 7776000 s \(ADAPTER_MAX_TTL\)"
    ):
        Mcp(long)
    assert Mcp(long, max_ttl=100 * 86_400)


@pytest.mark.requirement("R-88")
@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ({"params": {"message": "?"}}, "requestedSchema"),
        ({"params": form("Your secret?", secret="string")}, "secret"),
        ({"params": {"mode": "url", "message": "?", "url": "http://e.org"}}, "https"),
        ({"method": "sampling/createMessage", "params": {}}, "messages"),
    ],
)
def test_a_question_that_no_client_may_be_asked_stops_start_up(request_: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"tools\.yaml: tool 'job': before_start 'q': .*{says}"):
        Mcp(tool(before_start=[{"q": request_}]))


@pytest.mark.requirement("R-122")
async def test_without_a_key_one_is_made_up_for_each_process() -> None:
    one, other = (Mcp(tool("a"), tool("b"), page_size=1) for _ in range(2))
    cursor = (await one.call("tools/list")).result["nextCursor"]

    assert (await one.call("tools/list", {"cursor": cursor})).status == 200
    assert (await other.call("tools/list", {"cursor": cursor})).error["code"] == -32602


async def test_watched_tasks_are_read_as_often_as_the_settings_say() -> None:
    mcp = Mcp(tool(), watch_max=0.001)
    task_id = await mcp.start()
    async with mcp.stream("subscriptions/listen", {"notifications": {"taskIds": [task_id]}}) as stream:
        await stream.next()
        await until(lambda: mcp.store.reads >= 20)
