"""The one place that builds the parts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from adapter.aws import open_aws
from adapter.engines.step_functions import StepFunctions
from adapter.errors import ConfigurationError
from adapter.mcp.access import Access
from adapter.mcp.asking import Asking
from adapter.mcp.companions import RESERVED, Companions
from adapter.mcp.endpoint import Endpoint
from adapter.mcp.inline import Inline
from adapter.mcp.inputs import QuestionPolicy, request_problem
from adapter.mcp.legacy import Legacy
from adapter.mcp.legacy_shapes import VERSIONS, LegacyShapes
from adapter.mcp.legacy_tasks import LegacyTasks
from adapter.mcp.legacy_tools import LegacyTools
from adapter.mcp.listen import Listen
from adapter.mcp.listing import Listing
from adapter.mcp.modern import VERSION as MODERN
from adapter.mcp.modern import Modern
from adapter.mcp.offers import Offers
from adapter.mcp.resumption import Resumptions
from adapter.mcp.rounds import Rounds
from adapter.mcp.session import Sessions
from adapter.mcp.signing import Signer
from adapter.mcp.starting import ENGINE, Exposed, Starter
from adapter.mcp.task_methods import TaskMethods
from adapter.mcp.task_shapes import TaskShapes
from adapter.mcp.tool_methods import ToolMethods
from adapter.settings import Settings
from adapter.stores.dynamodb import DynamoTaskStore
from adapter.tasks.clock import Clock, system_clock
from adapter.tasks.engine import Engine
from adapter.tasks.pacing import DescribeBudget, EventFlow, RefreshPace
from adapter.tasks.reconcile import Reconciler
from adapter.tasks.service import TaskService
from adapter.tasks.store import TaskStore
from adapter.tasks.watcher import Watcher
from adapter.tools.catalog import Catalog


@dataclass(frozen=True, slots=True)
class Parts:
    """What an entry point needs of a running adapter."""

    endpoint: Endpoint
    service: TaskService
    targets: Mapping[str, str]
    watcher: Watcher


def assemble(
    settings: Settings,
    catalog: Catalog,
    targets: Mapping[str, str],
    store: TaskStore,
    engine: Engine,
    *,
    keys: Sequence[bytes],
    clock: Clock = system_clock,
) -> Parts:
    """The adapter over any store and job system; `keys` sign what clients carry. Raises ConfigurationError."""
    if not keys:
        raise ConfigurationError("no signing key is set: set ADAPTER_SIGNING_KEYS")
    check_catalog(catalog, settings)
    service = _service(settings, store, engine, clock)
    longest = settings.watch_max
    watcher = Watcher(service, shortest=min(0.1, longest), longest=longest, clock=clock)
    endpoint = _endpoint(settings, catalog, targets, service, watcher, Signer(keys), clock)
    return Parts(endpoint, service, targets, watcher)


def _service(settings: Settings, store: TaskStore, engine: Engine, clock: Clock) -> TaskService:
    pace = RefreshPace(int(settings.refresh_min * 1000), int(settings.refresh_max * 1000))
    events = EventFlow(on=settings.events == "on")
    budget = DescribeBudget(settings.describe_rate, settings.describe_burst)
    policy = QuestionPolicy()
    return TaskService(store, {ENGINE: engine}, policy, pace=pace, budget=budget, events=events, clock=clock)


@dataclass(frozen=True, slots=True)
class _Shared:
    """What both eras of the protocol are built on."""

    settings: Settings
    service: TaskService
    watcher: Watcher
    clock: Clock
    signer: Signer
    exposed: Exposed
    starter: Starter
    inline: Inline
    companions: Companions
    listing: Listing


def _endpoint(
    settings: Settings,
    catalog: Catalog,
    targets: Mapping[str, str],
    service: TaskService,
    watcher: Watcher,
    signer: Signer,
    clock: Clock,
) -> Endpoint:
    on, limit = settings.companion_tools == "on", settings.inline_wait_limit
    max_chars = settings.max_result_chars
    exposed = Exposed(catalog, targets, settings.list_ttl_ms, int(settings.max_ttl * 1000))
    shared = _Shared(
        settings,
        service,
        watcher,
        clock,
        signer,
        exposed,
        Starter(exposed, service, Rounds(signer, clock)),
        Inline(service, watcher, clock, limit=limit, companions=on, max_chars=max_chars),
        Companions(service, watcher, catalog, clock, on=on, limit=limit, max_chars=max_chars),
        Listing(signer, f"{catalog.digest}{on}", settings.page_size),
    )
    access = Access(settings.allowed_hosts, settings.allowed_origins, settings.max_body_bytes)
    return Endpoint(access, _modern(shared), _legacy(shared))


def _modern(of: _Shared) -> Modern:
    shapes = TaskShapes(of.clock)
    return Modern(
        ToolMethods(of.exposed, shapes, of.starter, of.inline, of.companions, of.listing),
        TaskMethods(of.service, shapes),
        Listen(of.watcher, shapes),
        supported=(MODERN, *VERSIONS),
        list_ttl_ms=of.settings.list_ttl_ms,
    )


def _legacy(of: _Shared) -> Legacy:
    settings, service, hold = of.settings, of.service, of.settings.legacy_hold
    shapes = LegacyShapes(of.clock, settings.legacy_input_status)
    offers, resumptions = Offers(service, of.signer, of.clock), Resumptions(of.signer, of.clock)
    tools = LegacyTools(
        of.exposed,
        service,
        shapes,
        of.starter,
        Asking(of.starter, service, offers),
        of.inline,
        of.companions,
        of.listing,
        offers,
        resumptions,
        hold=hold,
    )
    return Legacy(
        tools,
        LegacyTasks(service, of.watcher, shapes, offers, of.signer, resumptions, hold=hold),
        offers,
        Sessions(of.signer, of.clock, settings.max_ttl),
        resumptions,
        by_session=settings.isolation == "session",
    )


@asynccontextmanager
async def open_adapter(
    settings: Settings, catalog: Catalog, *, clock: Clock = system_clock
) -> AsyncIterator[Parts]:
    """The adapter over Step Functions and DynamoDB, with AWS clients that live as long as the context.

    Raises ConfigurationError.
    """
    async with open_aws() as aws:
        targets = {tool.name: await aws.resolve_target(tool.state_machine) for tool in catalog}
        store = DynamoTaskStore(aws.dynamodb, settings.table)
        engine = StepFunctions(aws.stepfunctions)
        parts = assemble(settings, catalog, targets, store, engine, keys=settings.keys, clock=clock)
        try:
            yield parts
        finally:
            parts.watcher.close()


@asynccontextmanager
async def open_reconciler(settings: Settings) -> AsyncIterator[Reconciler]:
    """The reconciler over the same. It needs no catalog: a record tells what its task runs on."""
    async with open_aws() as aws:
        store, engine = DynamoTaskStore(aws.dynamodb, settings.table), StepFunctions(aws.stepfunctions)
        yield Reconciler(_service(settings, store, engine, system_clock), store, engine)


def check_catalog(catalog: Catalog, settings: Settings) -> None:
    """What only the whole configuration can tell. Raises ConfigurationError."""
    for tool in catalog:
        if tool.name in RESERVED and settings.companion_tools == "on":
            raise ConfigurationError(
                f"tool {tool.name!r}: the name belongs to a companion tool; rename it, or set "
                "ADAPTER_COMPANION_TOOLS=off"
            )
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
