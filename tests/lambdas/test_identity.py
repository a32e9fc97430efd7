"""The owner is whom the gateway authenticated, and nobody that a client claims to be (D12)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lambdas.mcp.identity import owner_of
from tests.lambdas.hosting import ANONYMOUS_EVENTS, HTTP_EVENTS, event

POOL = "https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_AbCdEfGhI"
PARTNER = "principal#partner|4711"
ROLE = "iam#123456789012#AROAEXAMPLEROLEID0001"
POOLED = "cognito#eu-central-1:aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
OWNERS = {
    "rest_cognito": f"token#{POOL}#8f14e45f-ceea-467f-a8b1-3c9f0e1d2a3b",
    "rest_lambda_authorizer": PARTNER,
    "rest_iam": ROLE,
    "rest_iam_identity_pool": POOLED,
    "http_api_jwt": "token#https://login.example.com/#auth0|64f1c2d3e4a5b6c7",
    "http_api_iam": ROLE,
    "http_api_lambda_authorizer": PARTNER,
    "function_url_iam": ROLE,
    "function_url_iam_identity_pool": POOLED,
    **dict.fromkeys(ANONYMOUS_EVENTS),
}


def _context(name: str) -> dict[str, Any]:
    context: dict[str, Any] = event(name)["requestContext"]
    return context


def test_every_source_is_covered() -> None:
    assert sorted(OWNERS) == HTTP_EVENTS


@pytest.mark.parametrize(("name", "owner"), OWNERS.items())
def test_the_owner_is_whom_the_gateway_authenticated(name: str, owner: str | None) -> None:
    assert owner_of(_context(name)) == owner


@pytest.mark.parametrize("name", ["rest_iam", "http_api_iam", "function_url_iam"])
def test_all_sessions_of_a_role_are_one_owner(name: str) -> None:
    other = json.loads(json.dumps(_context(name)).replace("dana@example.com", "erik@example.com"))
    assert other != _context(name)
    assert owner_of(other) == ROLE


@pytest.mark.parametrize("name", ["rest_iam_identity_pool", "function_url_iam_identity_pool"])
def test_users_of_an_identity_pool_are_told_apart_though_they_share_a_role(name: str) -> None:
    other = json.loads(json.dumps(_context(name)).replace("aaaaaaaa-bbbb", "ffffffff-bbbb"))
    assert owner_of(other) not in (None, owner_of(_context(name)))


def test_the_same_role_is_the_same_owner_at_every_front_door() -> None:
    assert len({owner_of(_context(name)) for name in ("rest_iam", "http_api_iam", "function_url_iam")}) == 1


def test_the_same_subject_of_another_issuer_is_somebody_else() -> None:
    other = json.loads(json.dumps(_context("http_api_jwt")).replace("login.example.com", "login.example.org"))
    assert owner_of(other) != owner_of(_context("http_api_jwt"))


def test_the_same_role_id_of_another_account_is_somebody_else() -> None:
    context = _context("http_api_iam")
    context["authorizer"]["iam"]["accountId"] = "210987654321"
    assert owner_of(context) != ROLE


def test_an_iam_user_is_an_owner() -> None:
    context = _context("http_api_iam")
    context["authorizer"]["iam"]["callerId"] = "AIDAEXAMPLEUSERID0001"
    assert owner_of(context) == "iam#123456789012#AIDAEXAMPLEUSERID0001"


@pytest.mark.parametrize(
    "context",
    [
        {},
        {"authorizer": None, "identity": None},
        {"authorizer": "yes", "identity": []},
        {"authorizer": {"claims": {"sub": "dana"}}},
        {"authorizer": {"claims": {"iss": POOL}}},
        {"authorizer": {"jwt": {"claims": None}, "iam": {"accountId": "123456789012"}, "principalId": ""}},
        {"identity": {"caller": "AROAEXAMPLEROLEID0001:dana"}},
        {"identity": {"cognitoIdentityId": "eu-central-1:aaaaaaaa"}},
    ],
)
def test_half_an_identity_is_none(context: dict[str, Any]) -> None:
    assert owner_of(context) is None
