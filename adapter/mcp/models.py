"""What workflows and clients write, as the wire wants it: content blocks, input requests and their answers.

One member of a wrong type in a block or a question makes strict clients refuse the whole message that carries it,
so what a workflow wrote is checked before it is shown. Members that the protocol does not know pass.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, TypeAdapter, ValidationError

Role = Literal["user", "assistant"]
Number = int | float
Share = Annotated[float, Field(ge=0, le=1)]


def _optional(alias: str | None = None) -> Any:
    """May be absent, and unlike an optional type not null."""
    return Field(default=None, alias=alias)


class Open(BaseModel):
    """A model of the wire: no conversions, unknown members pass; built when first used, as most are seldom."""

    model_config = ConfigDict(extra="allow", strict=True, defer_build=True)


# --- content blocks ----------------------------------------------------------------------------------------


class Annotations(Open):
    audience: list[Role] = _optional()
    priority: Share = _optional()
    lastModified: str = _optional()  # noqa: N815 - the wire's name, as all below


class Icon(Open):
    src: str
    mimeType: str = _optional()  # noqa: N815
    sizes: list[str] = _optional()
    theme: Literal["light", "dark"] = _optional()


class Block(Open):
    annotations: Annotations = _optional()
    meta: dict[str, Any] = _optional("_meta")


class TextBlock(Block):
    type: Literal["text"]
    text: str


class DataBlock(Block):
    type: Literal["image", "audio"]
    data: str
    mimeType: str  # noqa: N815


class LinkBlock(Block):
    type: Literal["resource_link"]
    uri: str
    name: str
    title: str = _optional()
    description: str = _optional()
    mimeType: str = _optional()  # noqa: N815
    size: int = _optional()
    icons: list[Icon] = _optional()


class Resource(Open):
    uri: str
    mimeType: str = _optional()  # noqa: N815
    meta: dict[str, Any] = _optional("_meta")


class TextResource(Resource):
    text: str


class BlobResource(Resource):
    blob: str


class ResourceBlock(Block):
    type: Literal["resource"]
    resource: TextResource | BlobResource


Content = Annotated[TextBlock | DataBlock | LinkBlock | ResourceBlock, Field(discriminator="type")]
_CONTENT: TypeAdapter[list[Content]] = TypeAdapter(list[Content], config=ConfigDict(defer_build=True))


def is_content(value: object) -> bool:
    """Whether a value is the `content` of a tool result."""
    try:
        _CONTENT.validate_python(value)
    except ValidationError:
        return False
    return True


# --- elicitation -------------------------------------------------------------------------------------------


class Choice(Open):
    const: str
    title: str


class FormField(Open):
    title: str = _optional()
    description: str = _optional()


class StringField(FormField):
    type: Literal["string"]
    default: str = _optional()
    format: Literal["email", "uri", "date", "date-time"] = _optional()
    minLength: int = _optional()  # noqa: N815
    maxLength: int = _optional()  # noqa: N815
    enum: list[str] = _optional()
    enumNames: list[str] = _optional()  # noqa: N815
    oneOf: list[Choice] = _optional()  # noqa: N815


class NumberField(FormField):
    type: Literal["number", "integer"]
    default: Number = _optional()
    minimum: Number = _optional()
    maximum: Number = _optional()


class BooleanField(FormField):
    type: Literal["boolean"]
    default: bool = _optional()


class EnumItems(Open):
    type: Literal["string"]
    enum: list[str]


class ChoiceItems(Open):
    anyOf: list[Choice]  # noqa: N815


def _items_kind(value: object) -> str:
    return "choices" if isinstance(value, dict) and "anyOf" in value else "names"


class ArrayField(FormField):
    type: Literal["array"]
    default: list[str] = _optional()
    minItems: int = _optional()  # noqa: N815
    maxItems: int = _optional()  # noqa: N815
    items: Annotated[
        Annotated[EnumItems, Tag("names")] | Annotated[ChoiceItems, Tag("choices")],
        Discriminator(_items_kind),
    ]


AnyField = Annotated[StringField | NumberField | BooleanField | ArrayField, Field(discriminator="type")]


class RequestedSchema(Open):
    type: Literal["object"]
    properties: dict[str, AnyField]
    required: list[str] = _optional()
    dialect: str = _optional("$schema")


class Form(Open):
    mode: Literal["form"] = _optional()
    message: str = Field(min_length=1)
    requestedSchema: RequestedSchema  # noqa: N815


class Url(Open):
    mode: Literal["url"]
    message: str = Field(min_length=1)
    url: str = Field(min_length=1)


class Elicited(Open):
    action: Literal["accept", "decline", "cancel"]
    content: dict[str, str | Number | bool | list[str] | None] | None = None


# --- sampling ----------------------------------------------------------------------------------------------


class ToolUse(Open):
    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]


class ToolOutput(Open):
    type: Literal["tool_result"]
    toolUseId: str  # noqa: N815
    content: list[Content]
    isError: bool = _optional()  # noqa: N815


Said = Annotated[TextBlock | DataBlock | ToolUse | ToolOutput, Field(discriminator="type")]


def _said_kind(value: object) -> str:
    return "blocks" if isinstance(value, list) else "block"


SaidOnce = Annotated[
    Annotated[Said, Tag("block")] | Annotated[list[Said], Tag("blocks")], Discriminator(_said_kind)
]


class SamplingMessage(Open):
    role: Role
    content: SaidOnce


class ModelHint(Open):
    name: str = _optional()


class ModelPreferences(Open):
    hints: list[ModelHint] = _optional()
    costPriority: Share = _optional()  # noqa: N815
    speedPriority: Share = _optional()  # noqa: N815
    intelligencePriority: Share = _optional()  # noqa: N815


class OfferedSchema(Open):
    type: Literal["object"]


class OfferedTool(Open):
    name: str
    description: str = _optional()
    inputSchema: OfferedSchema  # noqa: N815


class ToolChoice(Open):
    mode: Literal["auto", "required", "none"] = _optional()


class Sampling(Open):
    messages: list[SamplingMessage]
    maxTokens: int  # noqa: N815
    systemPrompt: str = _optional()  # noqa: N815
    temperature: float = _optional()
    stopSequences: list[str] = _optional()  # noqa: N815
    includeContext: Literal["none", "thisServer", "allServers"] = _optional()  # noqa: N815
    modelPreferences: ModelPreferences = _optional()  # noqa: N815
    metadata: dict[str, Any] = _optional()
    tools: list[OfferedTool] = _optional()
    toolChoice: ToolChoice = _optional()  # noqa: N815


class Sampled(Open):
    role: Role
    content: SaidOnce
    model: str
    stopReason: str = _optional()  # noqa: N815


# --- roots -------------------------------------------------------------------------------------------------


class Roots(Open):
    """The params: nothing is needed."""


class Root(Open):
    uri: str
    name: str = _optional()


class RootList(Open):
    roots: list[Root]
