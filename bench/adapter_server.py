"""The adapter over an in-memory store and job system, and paths by which a measure looks into it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from adapter.http.app import create_app
from adapter.main import assemble
from adapter.mcp.endpoint import Endpoint
from adapter.settings import Settings
from bench.exchanges import CATALOG, COMPLETED, RUNNING, SIGNING_KEY, TARGET, TOOL, outcome, running_task
from tests.support.memory import MemoryEngine, MemoryStore

SETTINGS = Settings.model_validate({"signing_keys": SIGNING_KEY, "legacy_hold": 600.0})
"""The hold is longer than any measure, so that who waits in `tasks/result` stays in one reply."""


def many(tasks: int) -> list[str]:
    """The ids of the running tasks that `create` makes besides the two that have names."""
    return [f"mcp-one-of-many-{number:06d}" for number in range(tasks)]


def create(tasks: int) -> Starlette:
    """`GET /bench/reads`: how often the store has been read.
    `POST /bench/end`: every running task ends now, as if the status events of the job system had been written through.
    """
    store = MemoryStore()
    for task_id in (RUNNING, COMPLETED, *many(tasks)):
        store.tasks[task_id] = running_task(task_id)
    store.tasks[COMPLETED] = replace(store.tasks[COMPLETED], outcome=outcome())
    engine = MemoryEngine()
    parts = assemble(SETTINGS, CATALOG, {TOOL.name: TARGET}, store, engine, keys=SETTINGS.keys)

    @asynccontextmanager
    async def open_endpoint() -> AsyncIterator[Endpoint]:
        yield parts.endpoint
        parts.watcher.close()

    async def reads(_request: Request) -> Response:
        return JSONResponse(store.reads)

    async def end(_request: Request) -> Response:
        for task_id in many(tasks):
            record = store.tasks[task_id].record
            await store.latch(task_id, outcome(), expires_at=record.expires_at)
        return JSONResponse(tasks)

    app = create_app(open_endpoint, path="/mcp")
    app.routes.append(Route("/bench/reads", reads, methods=["GET"]))
    app.routes.append(Route("/bench/end", end, methods=["POST"]))
    return app
