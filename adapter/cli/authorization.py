"""What `adapter call` sends to prove who is calling: an access token, or a signature with AWS credentials."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol
from urllib.parse import urlsplit

from adapter.aws import configured_region

from .exits import CommandError, ExitCode

_API_HOST = re.compile(r"\.execute-api\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?$")
_REGION = re.compile(r"[A-Za-z0-9-]+")
_SERVICE = "execute-api"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Authorization(Protocol):
    remedy: str
    """What to look at where the endpoint refuses the caller."""

    async def headers(self, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        """What one POST of `body` needs besides `headers`. Raises CommandError where there are no credentials."""
        ...


class Anonymous:
    remedy = "if it wants to know who calls, sign with AWS credentials (--iam) or set an access token (ADAPTER_TOKEN)"

    async def headers(self, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        return {}


class BearerToken:
    """An OAuth access token. Whoever reads it may use it, so it crosses no network in the clear."""

    remedy = "look at the token in ADAPTER_TOKEN: its issuer, scopes and expiry"

    def __init__(self, token: str) -> None:
        self._token = token

    async def headers(self, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        parts = urlsplit(url)
        if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
            raise CommandError(
                "ADAPTER_TOKEN is sent over https only; unset it, or correct --url", ExitCode.USAGE
            )
        return {"Authorization": f"Bearer {self._token}"}


class AwsSignature:
    """Signature Version 4 for API Gateway, with the credentials that every AWS SDK finds."""

    remedy = (
        "look whether these credentials may execute-api:Invoke on the API, and whether it is in this Region"
    )

    def __init__(self) -> None:
        from aiobotocore.session import get_session

        self._session = get_session()

    async def headers(self, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            found = await self._session.get_credentials()
            # Asked for each request: those of a role end within the hour, a task may not.
            credentials = await found.get_frozen_credentials() if found is not None else None
        except (BotoCoreError, ClientError) as error:
            raise CommandError(f"--iam: {error}", ExitCode.USAGE) from None
        if credentials is None:
            raise CommandError("--iam: no AWS credentials are set (AWS_PROFILE, …)", ExitCode.USAGE)
        parts = (credentials.access_key, credentials.secret_key, credentials.token or "none")
        if not all(_is_one_word(part or "") for part in parts):
            raise CommandError(
                "--iam: the AWS credentials hold a line break, a space or another character that none can hold",
                ExitCode.USAGE,
            )
        request = AWSRequest(method="POST", url=url, headers=dict(headers), data=body)
        SigV4Auth(credentials, _SERVICE, self._region(url)).add_auth(request)
        return {name: value for name, value in request.headers.items() if name not in headers}

    def _region(self, url: str) -> str:
        of_host = _API_HOST.search(urlsplit(url).hostname or "")
        region = of_host["region"] if of_host else configured_region(self._session)
        if not region:
            raise CommandError("--iam: the URL names no AWS region: set AWS_REGION", ExitCode.USAGE)
        if not _REGION.fullmatch(region):
            raise CommandError(f"--iam: {region!a} is not an AWS region: correct AWS_REGION", ExitCode.USAGE)
        return region


def authorization(*, iam: bool, token: str | None) -> Authorization:
    """What the options of the command ask for. Raises CommandError where they contradict each other."""
    if iam and token:
        raise CommandError("give --iam or ADAPTER_TOKEN, not both", ExitCode.USAGE)
    if token:
        if not _is_one_word(token):
            raise CommandError("ADAPTER_TOKEN is not an access token", ExitCode.USAGE)
        return BearerToken(token)
    return AwsSignature() if iam else Anonymous()


def _is_one_word(text: str) -> bool:
    """Whether a header can carry it among others."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text
