"""The AWS clients of one process, made once, and the names of state machines."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession, get_session
from botocore.exceptions import BotoCoreError, ClientError

from . import __version__
from .errors import ConfigurationError
from .timeouts import ATTEMPTS, CONNECT_TIMEOUT, READ_TIMEOUT

if TYPE_CHECKING:
    from types_aiobotocore_dynamodb import DynamoDBClient
    from types_aiobotocore_stepfunctions import SFNClient
    from types_aiobotocore_sts import STSClient

POOL_SIZE = 64

_NAME = r"[^\s<>{}\[\]?*\"#%\\^|~`$&,;:/\x00-\x1f\x7f-\x9f]{1,80}"
_MACHINE_NAME = re.compile(_NAME)
_MACHINE_ARN = re.compile(rf"arn:aws[a-z-]*:states:[a-z0-9-]+:\d{{12}}:stateMachine:{_NAME}(?::{_NAME})?")


@dataclass(frozen=True, slots=True)
class Account:
    """Whom the credentials belong to, and the region that is used."""

    partition: str
    region: str
    number: str


class Aws:
    """The clients, each with its own bounded connection pool, and the account they speak for."""

    def __init__(self, session: AioSession, stepfunctions: SFNClient, dynamodb: DynamoDBClient) -> None:
        self.stepfunctions = stepfunctions
        self.dynamodb = dynamodb
        self._session = session
        self._account: Account | None = None

    async def resolve_target(self, name_or_arn: str) -> str:
        """The ARN of a state machine; an ARN (also of a version or alias) stays as it is.

        Raises ConfigurationError: it cannot be started, or a name is given and the account cannot be found.
        """
        if name_or_arn.startswith("arn:"):
            return _startable(name_or_arn)
        if not _MACHINE_NAME.fullmatch(name_or_arn):
            raise ConfigurationError(f"{name_or_arn!r} is not the name of a state machine")
        of = await self.account()
        return f"arn:{of.partition}:states:{of.region}:{of.number}:stateMachine:{name_or_arn}"

    async def account(self) -> Account:
        """Looked up once. Raises ConfigurationError where that fails."""
        if self._account is None:
            self._account = await self._looked_up()
        return self._account

    async def _looked_up(self) -> Account:
        try:
            sts: STSClient
            async with self._session.create_client("sts") as sts:
                identity = await sts.get_caller_identity()
        except (BotoCoreError, ClientError) as error:
            raise ConfigurationError(
                f"the account cannot be looked up ({type(error).__name__}): check the AWS credentials, or give "
                "the ARN of each state machine that is given by name"
            ) from error
        partition = identity["Arn"].split(":")[1]
        return Account(partition, self.stepfunctions.meta.region_name, identity["Account"])


@asynccontextmanager
async def open_aws() -> AsyncIterator[Aws]:
    """The clients, for one event loop; region, credentials and AWS_ENDPOINT_URL come from the environment.

    Raises ConfigurationError where these cannot be used.
    """
    async with AsyncExitStack() as stack:
        with _usable():
            session = _session()
            stepfunctions: SFNClient = await stack.enter_async_context(session.create_client("stepfunctions"))
            dynamodb: DynamoDBClient = await stack.enter_async_context(session.create_client("dynamodb"))
        yield Aws(session, stepfunctions, dynamodb)


@asynccontextmanager
async def open_dynamodb() -> AsyncIterator[DynamoDBClient]:
    """The DynamoDB client alone, as `open_aws` makes it."""
    client: DynamoDBClient
    async with open_client("dynamodb") as client:
        yield client


@asynccontextmanager
async def open_client(service: str) -> AsyncIterator[Any]:
    """A client of any service, as `open_aws` makes it."""
    async with AsyncExitStack() as stack:
        with _usable():
            client = await stack.enter_async_context(_session().create_client(service))
        yield client


@contextmanager
def _usable() -> Iterator[None]:
    try:
        yield
    except (BotoCoreError, ValueError) as error:
        raise ConfigurationError(f"the AWS settings cannot be used: {error}") from error


def execution_arn(target: str, name: str) -> str:
    """The ARN of the execution `name` of a state machine, version or alias ARN: it holds no qualifier."""
    _, partition, _, region, account, _, machine, *_ = target.split(":")
    return f"arn:{partition}:states:{region}:{account}:execution:{machine}:{name}"


def machine_name(state_machine: str) -> str:
    """The name of a state machine that is given as a name or as an ARN, also of a version or alias."""
    parts = state_machine.split(":")
    return parts[6] if len(parts) > 6 else parts[-1]


def _startable(arn: str) -> str:
    if not _MACHINE_ARN.fullmatch(arn):
        raise ConfigurationError(
            f"{arn} is not the ARN of a state machine, version or alias "
            "(executions, map runs and labelled ARNs cannot be started)"
        )
    return arn


def configured_region(session: AioSession) -> str | None:
    """botocore reads AWS_DEFAULT_REGION only; containers and people set AWS_REGION."""
    return session.get_config_variable("region") or os.environ.get("AWS_REGION")


def _session() -> AioSession:
    session = get_session()
    region = configured_region(session)
    if not region:
        raise ConfigurationError("no AWS region is set: set AWS_REGION")
    session.set_config_variable("region", region)
    config = AioConfig(
        connect_timeout=CONNECT_TIMEOUT,
        read_timeout=READ_TIMEOUT,
        max_pool_connections=POOL_SIZE,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        # Measured: these two save a quarter of the CPU time of a call.
        parameter_validation=False,
        user_agent=f"mcp-workflow-adapter/{__version__}",
        # aiobotocore does not apply botocore's `tcp_keepalive`.
        connector_args={"socket_factory": _keepalive_socket},
    )
    session.set_default_client_config(config)
    return session


def _keepalive_socket(address: tuple[int, int, int, str, object]) -> socket.socket:
    family, kind, protocol, _, _ = address
    connection = socket.socket(family, kind, protocol)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return connection
