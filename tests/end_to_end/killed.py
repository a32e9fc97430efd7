"""A process that serves one request and kills itself on the way."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from dataclasses import dataclass
from typing import Any

from tests.end_to_end.site import Site
from tests.support.aws import aws_at, local_engine
from tests.support.follower import SECONDS

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__])


@dataclass(frozen=True)
class Plan:
    """A request, and the event of botocore at which the process that serves it dies."""

    method: str
    params: dict[str, Any]
    event: str
    """Such as `before-send.sfn.StartExecution`, or `response-received.…`: it was carried out."""
    endpoint: str
    machines: dict[str, str]


async def kill(site: Site, method: str, params: dict[str, Any], event: str) -> None:
    """Returns once a process has died at this point of the request."""
    plan = Plan(method, params, event, local_engine().endpoint, dict(site.machines))
    process = _CONTEXT.Process(target=_serve, args=(plan,))
    process.start()
    await asyncio.to_thread(process.join, SECONDS)
    assert process.exitcode == -signal.SIGKILL, f"it ended with {process.exitcode}"


def _serve(plan: Plan) -> None:
    asyncio.run(_serve_until_killed(plan))


async def _serve_until_killed(plan: Plan) -> None:
    def die(**_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    async with aws_at(plan.endpoint) as aws, Site(aws, plan.machines).client() as client:
        for part in (aws.stepfunctions, aws.dynamodb):
            part.meta.events.register(plan.event, die)
        await client.call(plan.method, plan.params)
