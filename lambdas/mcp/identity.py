"""Who calls, as the gateway's authorizer found out; never from anything that a client sends (D12)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

JsonObject = Mapping[str, Any]


def owner_of(context: JsonObject) -> str | None:
    """The owner that a `requestContext` proves: issuer and subject, or account and role; None: nobody."""
    authorizer = _object(context, "authorizer")
    if not authorizer:
        return _iam_owner(_object(context, "identity"), "caller")
    return (
        _token_owner(_object(authorizer, "claims"))
        or _token_owner(_object(_object(authorizer, "jwt"), "claims"))
        or _iam_owner(_object(authorizer, "iam"), "callerId")
        or _custom_owner(authorizer)
        or _custom_owner(_object(authorizer, "lambda"))
        or _iam_owner(_object(context, "identity"), "caller")
    )


def _token_owner(claims: JsonObject) -> str | None:
    """A Cognito or JWT authorizer: the subject is unique within its issuer only."""
    issuer, subject = claims.get("iss"), claims.get("sub")
    return f"token#{issuer}#{subject}" if issuer and subject else None


def _custom_owner(authorizer: JsonObject) -> str | None:
    """A Lambda authorizer names the principal."""
    principal = authorizer.get("principalId")
    return f"principal#{principal}" if principal else None


def _iam_owner(identity: JsonObject, member: str) -> str | None:
    """Signed with AWS credentials: the role, not the name that somebody gave the session of it.

    All users of a Cognito identity pool share a role; each has an identity of its own there.
    """
    account, caller = identity.get("accountId"), identity.get(member)
    if not account or not caller:
        return None
    pooled = identity.get("cognitoIdentityId") or _object(identity, "cognitoIdentity").get("identityId")
    return f"cognito#{pooled}" if pooled else f"iam#{account}#{str(caller).partition(':')[0]}"


def _object(value: JsonObject, name: str) -> JsonObject:
    member = value.get(name)
    return member if isinstance(member, Mapping) else {}
