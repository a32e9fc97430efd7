"""The template with AuthMode=OAuth, deployed beside the other stack, with access tokens of a Cognito user pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from .caller import PATIENCE, Bearer, calling
from .deployment import Deployment, deploy
from .emulator import REGION

PUBLIC_URL = "https://mcp.example.com"
DOMAIN = "e2e"


@dataclass(frozen=True)
class Pool:
    """A user pool whose clients get tokens for themselves."""

    endpoint: str
    arn: str
    cognito: Any

    @classmethod
    def create(cls, deployment: Deployment) -> Pool:
        cognito = deployment.administrator.client("cognito-idp")
        pool = cognito.create_user_pool(PoolName="e2e")["UserPool"]
        scopes = [{"ScopeName": name, "ScopeDescription": name} for name in ("tasks", "other")]
        cognito.create_resource_server(UserPoolId=pool["Id"], Identifier="mcp", Name="mcp", Scopes=scopes)
        cognito.create_user_pool_domain(Domain=DOMAIN, UserPoolId=pool["Id"])
        return cls(deployment.endpoint, pool["Arn"], cognito)

    @property
    def issuer(self) -> str:
        return f"https://cognito-idp.{REGION}.amazonaws.com/{self.arn.rpartition('/')[2]}"

    def token(self, scope: str = "mcp/tasks") -> Bearer:
        """Of a new client."""
        client = self.cognito.create_user_pool_client(
            UserPoolId=self.arn.rpartition("/")[2],
            ClientName="e2e",
            GenerateSecret=True,
            AllowedOAuthFlows=["client_credentials"],
            AllowedOAuthScopes=[scope],
            AllowedOAuthFlowsUserPoolClient=True,
        )["UserPoolClient"]
        reply = httpx.post(
            f"{self.endpoint}/oauth2/token",
            headers={"host": f"{DOMAIN}.auth.{REGION}.amazoncognito.com"},
            data={"grant_type": "client_credentials", "scope": scope},
            auth=(client["ClientId"], client["ClientSecret"]),
            timeout=PATIENCE,
        )
        return Bearer(reply.raise_for_status().json()["access_token"])


@pytest.fixture(scope="module")
def pool(deployment: Deployment) -> Pool:
    return Pool.create(deployment)


@pytest.fixture(scope="module")
def protected(deployment: Deployment, pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """Exposes one of the other stack's state machines, by the tools file of the package."""
    parameters = {
        "StateMachineArns": deployment.resources["LedgerImport"],
        "DeletionProtection": "false",
        "AuthMode": "OAuth",
        "CognitoUserPoolArn": pool.arn,
        "PublicUrl": PUBLIC_URL,
        "SetApiGatewayLogRole": "false",
    }
    protected = Deployment(deployment.endpoint, "mcp-oauth", parameters)
    deploy(protected, tmp_path_factory.mktemp("oauth") / "sam.log")
    return protected


async def test_without_a_token_a_client_learns_where_to_get_one(protected: Deployment, pool: Pool) -> None:
    async with calling(protected.url, None) as nobody:
        answer = await nobody.call("tools/list")
    metadata = httpx.get(f"{protected.base}/.well-known/oauth-protected-resource/mcp", timeout=PATIENCE)

    assert answer.refusal == (401, -32600)
    challenge = f'Bearer resource_metadata="{PUBLIC_URL}/.well-known/oauth-protected-resource/mcp"'
    assert answer.headers["www-authenticate"].replace("\n", " ").startswith(challenge)
    assert metadata.json()["resource"] == f"{PUBLIC_URL}/mcp"
    assert metadata.json()["authorization_servers"] == [pool.issuer]


async def test_a_task_belongs_to_the_subject_of_the_token(protected: Deployment, pool: Pool) -> None:
    async with calling(protected.url, pool.token()) as ada, calling(protected.url, pool.token()) as bob:
        task_id = await ada.start("import_ledger", {"file": "june.csv"})

        foreign = await bob.call("tasks/get", {"taskId": task_id})

        assert foreign.error["message"] == "Task not found"
        assert (await ada.ended(task_id))["status"] == "completed"


@pytest.mark.parametrize("wrong", ["another scope", "no token of the pool"])
async def test_another_token_is_refused(protected: Deployment, pool: Pool, wrong: str) -> None:
    """Which of the two statuses the gateway chooses for a missing scope has to be looked up in AWS."""
    token = pool.token("mcp/other") if wrong == "another scope" else Bearer("bm8.dG9rZW4.eA")

    async with calling(protected.url, token) as caller:
        answer = await caller.call("tools/list")

    assert answer.status in (401, 403)
    assert answer.error["code"] == -32600


async def test_a_tool_whose_state_machine_is_not_exposed_cannot_be_started(
    protected: Deployment, pool: Pool
) -> None:
    """The role of the function is refused by IAM; the record that was written first is removed."""
    async with calling(protected.url, pool.token()) as ada:
        answer = await ada.call("tools/call", {"name": "sales_report", "arguments": {"day": "2026-07-28"}})

    assert "error" in answer.message
    table = protected.administrator.client("dynamodb")
    items = table.scan(TableName=protected.table, ConsistentRead=True)["Items"]
    assert not [item for item in items if item.get("tool") == {"S": "sales_report"}]
