"""The one place that builds the parts."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from adapter.aws import open_aws
from adapter.engines.step_functions import StepFunctions
from adapter.errors import ConfigurationError
from adapter.mcp.access import Access
from adapter.mcp.endpoint import Endpoint
from adapter.mcp.inputs import QuestionPolicy, request_problem
from adapter.mcp.modern import Modern
from adapter.mcp.signing import Signer
from adapter.mcp.tool_methods import ENGINE, Exposed
from adapter.settings import Settings
from adapter.stores.dynamodb import DynamoTaskStore
from adapter.tasks.clock import Clock, system_clock
from adapter.tasks.engine import Engine
from adapter.tasks.pacing import DescribeBudget, RefreshPace
from adapter.tasks.service import TaskService
from adapter.tasks.store import TaskStore
from adapter.tasks.watcher import Watcher
from adapter.tools.catalog import Catalog


@dataclass(frozen=True, slots=True)
class Parts:
    """What an entry point needs of a running adapter."""

    endpoint: Endpoint
    service: TaskService
    watcher: Watcher


def assemble(
    settings: Settings,
    catalog: Catalog,
    targets: Mapping[str, str],
    store: TaskStore,
    engine: Engine,
    *,
    clock: Clock = system_clock,
) -> Parts:
    """The adapter over any store and job system. Raises ConfigurationError."""
    check_catalog(catalog, settings)
    pace = RefreshPace(int(settings.refresh_min * 1000), int(settings.refresh_max * 1000))
    budget = DescribeBudget(settings.describe_rate, settings.describe_burst)
    service = TaskService(store, {ENGINE: engine}, QuestionPolicy(), pace=pace, budget=budget, clock=clock)
    longest = settings.watch_max
    watcher = Watcher(service, shortest=min(0.1, longest), longest=longest, clock=clock)
    exposed = Exposed(catalog, targets, settings.page_size, settings.list_ttl_ms)
    signer = Signer(settings.keys or (secrets.token_bytes(32),))
    modern = Modern(exposed, service, watcher, signer, inline_limit=settings.inline_wait_limit, clock=clock)
    access = Access(settings.allowed_hosts, settings.allowed_origins, settings.max_body_bytes)
    return Parts(Endpoint(access, modern), service, watcher)


@asynccontextmanager
async def open_adapter(
    settings: Settings, catalog: Catalog, *, clock: Clock = system_clock
) -> AsyncIterator[Parts]:
    """The adapter over Step Functions and DynamoDB, with AWS clients that live as long as the context."""
    async with open_aws() as aws:
        targets = {tool.name: await aws.resolve_target(tool.state_machine) for tool in catalog}
        store = DynamoTaskStore(aws.dynamodb, settings.table)
        engine = StepFunctions(aws.stepfunctions)
        parts = assemble(settings, catalog, targets, store, engine, clock=clock)
        try:
            yield parts
        finally:
            parts.watcher.close()


def check_catalog(catalog: Catalog, settings: Settings) -> None:
    """What only the whole configuration can tell. Raises ConfigurationError."""
    for tool in catalog:
        if tool.ttl > settings.max_ttl:
            raise ConfigurationError(
                f"{settings.tools}: tool {tool.name!r}: timeout and retention together are longer than the limit of "
                f"{settings.max_ttl:.0f} s (ADAPTER_MAX_TTL)"
            )
        for round_ in tool.before_start:
            for key, request in round_.requests.items():
                problem = request_problem(request.method, request.params)
                if problem is not None:
                    where = f"{settings.tools}: tool {tool.name!r}: before_start {key!r}"
                    raise ConfigurationError(f"{where}: {problem}")
