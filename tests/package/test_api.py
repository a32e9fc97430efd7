"""The REST API: what it lets through, to whom, and what it answers itself."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from .conftest import ARN, POOL
from .stack import Stack

METADATA_PATHS = {"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"}
CHALLENGED = {"UNAUTHORIZED": "401", "EXPIRED_TOKEN": "401", "ACCESS_DENIED": "403"}
GATEWAY_RESPONSES = {
    *CHALLENGED,
    "MISSING_AUTHENTICATION_TOKEN",
    "INVALID_SIGNATURE",
    "THROTTLED",
    "INTEGRATION_TIMEOUT",
    "DEFAULT_4XX",
    "DEFAULT_5XX",
}
ORIGINS = "https://a.example.com,https://b.example.com:8443"
MODES = {
    "IAM": {},
    "None": {"AuthMode": "None", "AllowUnauthenticated": "true"},
    "OAuth": {
        "AuthMode": "OAuth",
        "CognitoUserPoolArn": POOL,
        "PublicUrl": "https://mcp.example.com",
    },
}


def _body(stack: Stack) -> dict[str, Any]:
    body: dict[str, Any] = stack.resource("Api")["DefinitionBody"]
    return body


def _security(stack: Stack) -> list[Any]:
    (security,) = {
        json.dumps(operation["security"])
        for method, operation in _body(stack)["paths"]["/mcp"].items()
        if method != "options"
    }
    decoded: list[Any] = json.loads(security)
    return decoded


@pytest.mark.requirement("B-14")
def test_post_get_and_delete_reach_the_function_and_nothing_else(listed: Stack) -> None:
    paths = _body(listed)["paths"]
    assert {path: set(methods) for path, methods in paths.items()} == {"/mcp": {"post", "get", "delete"}}
    for operation in paths["/mcp"].values():
        integration = operation["x-amazon-apigateway-integration"]
        assert (integration["type"], integration["httpMethod"]) == ("aws_proxy", "POST")
        assert integration["uri"].endswith("/2015-03-31/functions/<Mcp.Arn>/invocations")


def test_by_default_requests_are_signed(listed: Stack) -> None:
    scheme = _body(listed)["components"]["securitySchemes"]["caller"]
    assert scheme["x-amazon-apigateway-authtype"] == "awsSigv4"
    assert _security(listed) == [{"caller": []}]


def test_oauth_takes_access_tokens_of_the_user_pool_with_a_scope(oauth: Stack) -> None:
    scheme = _body(oauth)["components"]["securitySchemes"]["caller"]
    assert scheme["x-amazon-apigateway-authtype"] == "cognito_user_pools"
    authorizer = scheme["x-amazon-apigateway-authorizer"]
    assert authorizer == {"type": "cognito_user_pools", "providerARNs": [POOL]}
    assert _security(oauth) == [{"caller": ["mcp/tasks", "mcp/admin"]}]


def test_nobody_is_asked_only_where_both_switches_say_so(anonymous: Stack) -> None:
    assert _security(anonymous) == []
    assert _variables(anonymous)["ADAPTER_REQUIRE_IDENTITY"] == "false"


def test_the_function_requires_an_identity_wherever_the_gateway_does(listed: Stack, oauth: Stack) -> None:
    assert _variables(listed)["ADAPTER_REQUIRE_IDENTITY"] == "true"
    assert _variables(oauth)["ADAPTER_REQUIRE_IDENTITY"] == "true"


def test_no_authentication_without_the_second_switch_is_refused() -> None:
    with pytest.raises(ValueError, match="AllowUnauthenticated=true"):
        Stack("template.yaml", StateMachineArns=f"{ARN}billing", AuthMode="None")


def test_should_the_rule_be_missed_the_api_stays_closed() -> None:
    stack = Stack("template.yaml", StateMachineArns=f"{ARN}billing", AllowUnauthenticated="true")
    assert _security(stack) == [{"caller": []}]
    conditions = stack.template["Conditions"]["Open"]["Fn::And"]
    assert {"Fn::Equals": [{"Ref": "AllowUnauthenticated"}, "true"]} in conditions


@pytest.mark.parametrize("missing", ["CognitoUserPoolArn", "PublicUrl"])
def test_incomplete_oauth_is_refused(missing: str) -> None:
    parameters = {"CognitoUserPoolArn": POOL, "PublicUrl": "https://mcp.example.com"}
    del parameters[missing]
    with pytest.raises(ValueError, match=missing):
        Stack("template.yaml", StateMachineArns=f"{ARN}billing", AuthMode="OAuth", **parameters)


@pytest.mark.requirement("B-13")
def test_oauth_metadata_is_open_to_everybody(oauth: Stack) -> None:
    paths = _body(oauth)["paths"]
    assert set(paths) == {"/mcp"} | METADATA_PATHS
    for path in METADATA_PATHS:
        assert set(paths[path]) == {"get"}
        assert paths[path]["get"]["security"] == []


def test_the_function_is_told_what_the_metadata_has_to_say(oauth: Stack) -> None:
    variables = _variables(oauth)
    assert variables["ADAPTER_RESOURCE"] == "https://mcp.example.com/mcp"
    assert variables["ADAPTER_SCOPES"] == "mcp/tasks,mcp/admin"
    issuer = "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_AbCdEf"
    assert variables["ADAPTER_AUTHORIZATION_SERVERS"] == issuer


def test_another_authorization_server_can_be_announced() -> None:
    stack = Stack(
        "template.yaml",
        StateMachineArns=f"{ARN}billing",
        AuthMode="OAuth",
        CognitoUserPoolArn=POOL,
        PublicUrl="https://mcp.example.com",
        AuthorizationServer="https://login.example.com",
    )
    assert _variables(stack)["ADAPTER_AUTHORIZATION_SERVERS"] == "https://login.example.com"


@pytest.mark.requirement("B-13")
@pytest.mark.parametrize(("kind", "status"), CHALLENGED.items())
def test_a_refused_token_is_answered_with_the_challenge(oauth: Stack, kind: str, status: str) -> None:
    response = _body(oauth)["x-amazon-apigateway-gateway-responses"][kind]
    assert response["statusCode"] == status
    challenge = response["responseParameters"]["gatewayresponse.header.WWW-Authenticate"]
    assert challenge.startswith("'Bearer ")
    assert challenge.endswith("'")
    url = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
    assert f'resource_metadata="{url}", scope="mcp/tasks mcp/admin"' in challenge


def test_too_few_scopes_are_told_from_a_bad_token(oauth: Stack) -> None:
    responses = _body(oauth)["x-amazon-apigateway-gateway-responses"]
    header = "gatewayresponse.header.WWW-Authenticate"
    assert 'error="insufficient_scope"' in responses["ACCESS_DENIED"]["responseParameters"][header]
    assert 'error="invalid_token"' in responses["EXPIRED_TOKEN"]["responseParameters"][header]


@pytest.mark.parametrize("kind", CHALLENGED)
def test_without_oauth_there_is_no_challenge(listed: Stack, kind: str) -> None:
    response = _body(listed)["x-amazon-apigateway-gateway-responses"][kind]
    assert response["responseParameters"] == {}


def test_a_path_that_does_not_exist_is_not_found_where_clients_look_for_metadata(
    listed: Stack, oauth: Stack, anonymous: Stack
) -> None:
    kind = "MISSING_AUTHENTICATION_TOKEN"
    statuses = [
        _body(stack)["x-amazon-apigateway-gateway-responses"][kind]["statusCode"]
        for stack in (listed, oauth, anonymous)
    ]
    assert statuses == ["403", "404", "404"]


def test_every_answer_of_the_gateway_itself_is_json_rpc(oauth: Stack) -> None:
    responses = _body(oauth)["x-amazon-apigateway-gateway-responses"]
    assert {"DEFAULT_4XX", "DEFAULT_5XX", "THROTTLED", "INTEGRATION_TIMEOUT"} < set(responses)
    for response in responses.values():
        template = response["responseTemplates"]["application/json"]
        error = json.loads(template)
        assert error["jsonrpc"] == "2.0"
        # The gateway's own texts name the caller's role and the API by their ARNs.
        assert set(re.findall(r"\$[\w.]+", template)) <= {"$context.error.responseType"}
        assert error["error"]["code"] in (-32600, -32603)
    assert responses["THROTTLED"]["statusCode"] == "429"
    assert "gatewayresponse.header.Retry-After" in responses["THROTTLED"]["responseParameters"]


def test_preflights_are_taken_only_for_browser_clients(listed: Stack, oauth: Stack) -> None:
    for stack in (listed, oauth):
        assert not [path for path, methods in _body(stack)["paths"].items() if "options" in methods]


@pytest.mark.parametrize("mode", MODES)
def test_preflights_reach_the_function_without_any_credentials(mode: str) -> None:
    for path, methods in _body(_browser(mode))["paths"].items():
        preflight = methods["options"]
        assert preflight["security"] == [], path
        integration = preflight["x-amazon-apigateway-integration"]
        assert (integration["type"], integration["httpMethod"]) == ("aws_proxy", "POST")
        assert integration["uri"].endswith("/2015-03-31/functions/<Mcp.Arn>/invocations")


def test_the_function_and_nobody_else_knows_the_origins() -> None:
    stack = _browser("OAuth")
    assert _variables(stack)["ADAPTER_ALLOWED_ORIGINS"] == ORIGINS
    assert "example.com:8443" not in json.dumps(_body(stack))


@pytest.mark.parametrize("mode", MODES)
def test_pages_may_read_every_answer_of_the_gateway_itself(mode: str) -> None:
    for kind, response in _body(_browser(mode))["x-amazon-apigateway-gateway-responses"].items():
        header = "gatewayresponse.header.Access-Control-Allow-Origin"
        assert response["responseParameters"][header] == "'*'", kind
    assert set(_body(_browser(mode))["x-amazon-apigateway-gateway-responses"]) == GATEWAY_RESPONSES


def test_pages_may_read_the_challenge_and_when_to_come_back() -> None:
    responses = _body(_browser("OAuth"))["x-amazon-apigateway-gateway-responses"]
    exposed = {
        kind: response["responseParameters"].get("gatewayresponse.header.Access-Control-Expose-Headers")
        for kind, response in responses.items()
    }
    assert {exposed[kind] for kind in CHALLENGED} == {"'WWW-Authenticate'"}
    assert exposed["THROTTLED"] == "'Retry-After'"


def _browser(mode: str) -> Stack:
    return Stack("template.yaml", StateMachineArns=f"{ARN}billing", AllowedOrigins=ORIGINS, **MODES[mode])


@pytest.mark.parametrize("origin", ["*", "example.com", "https://a.example.com/", "https://a.example.com, x"])
def test_what_is_no_origin_is_refused(origin: str) -> None:
    with pytest.raises(ValueError, match="AllowedOrigins"):
        Stack("template.yaml", StateMachineArns=f"{ARN}billing", AllowedOrigins=origin)


def test_requests_are_throttled_and_logged(listed: Stack) -> None:
    api = listed.resource("Api")
    (settings,) = api["MethodSettings"]
    assert (settings["ResourcePath"], settings["HttpMethod"]) == ("/*", "*")
    assert (settings["ThrottlingRateLimit"], settings["ThrottlingBurstLimit"]) == ("100", "200")
    assert settings["DataTraceEnabled"] is False
    assert api["AccessLogSetting"]["DestinationArn"] == "<ApiAccessLogs.Arn>"
    logged = json.loads(api["AccessLogSetting"]["Format"])
    assert {"requestId", "caller", "subject", "status", "latencyMs", "gatewayError"} < set(logged)
    assert not [value for value in logged.values() if "body" in value or "header" in value.lower()]


def test_there_is_one_stage_and_changed_parameters_reach_it(listed: Stack) -> None:
    api = listed.resource("Api")
    assert api["StageName"] == "live"
    assert api["AlwaysDeploy"] is True
    assert api["OpenApiVersion"] == _body(listed)["openapi"]


def test_replies_are_buffered_below_the_gateways_limit(oauth: Stack) -> None:
    for methods in _body(oauth)["paths"].values():
        for operation in methods.values():
            integration = operation["x-amazon-apigateway-integration"]
            assert "responseTransferMode" not in integration
            assert integration["timeoutInMillis"] == 29_000
    assert oauth.resource("Mcp")["Timeout"] == 29


def test_only_this_apis_stage_may_invoke_the_function(listed: Stack) -> None:
    permission = listed.resource("McpPermission")
    assert permission["Principal"] == "apigateway.amazonaws.com"
    assert permission["SourceArn"] == "arn:aws:execute-api:eu-central-1:123456789012:<Api>/live/*"


def test_the_accounts_log_role_can_be_left_alone_and_outlives_the_stack() -> None:
    stack = Stack("template.yaml", StateMachineArns=f"{ARN}billing", SetApiGatewayLogRole="false")
    for name in ("ApiGatewayAccount", "ApiGatewayLogRole"):
        with pytest.raises(KeyError):
            stack.resource(name)
        assert stack.template["Resources"][name]["DeletionPolicy"] == "Retain"
    assert stack.template["Resources"]["Api"]["DependsOn"] == "ApiGatewayAccount"


def test_a_certificate_makes_the_public_url_a_domain_of_the_api() -> None:
    certificate = "arn:aws:acm:eu-central-1:123456789012:certificate/11111111-2222-3333-4444-555555555555"
    stack = Stack(
        "template.yaml",
        StateMachineArns=f"{ARN}billing",
        PublicUrl="https://mcp.example.com",
        CertificateArn=certificate,
    )
    domain = stack.resource("ApiDomain")
    assert (domain["DomainName"], domain["SecurityPolicy"]) == ("mcp.example.com", "TLS_1_2")
    assert "BasePath" not in stack.resource("ApiDomainMapping")
    with pytest.raises(ValueError, match="PublicUrl"):
        Stack("template.yaml", StateMachineArns=f"{ARN}billing", CertificateArn=certificate)


def _variables(stack: Stack) -> dict[str, str]:
    variables: dict[str, str] = stack.resource("Mcp")["Environment"]["Variables"]
    return variables
