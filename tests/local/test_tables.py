from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from adapter.local.engine import LocalAws
from adapter.stores.table import create_table
from tests.support.aws import aws_at

COUNTER = {"pk": {"S": "counter"}, "sk": {"S": "counter"}}
UPDATES = 400


async def test_no_update_of_an_item_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    eager = "import sys; sys.setswitchinterval(1e-6)"  # threads take turns as often as they can
    (tmp_path / "sitecustomize.py").write_text(eager)
    monkeypatch.syspath_prepend(tmp_path)
    with LocalAws.start() as engine:
        async with aws_at(engine.endpoint) as aws:
            await create_table(aws.dynamodb, "counters")
            add = {
                "TableName": "counters",
                "Key": COUNTER,
                "UpdateExpression": "ADD n :one",
                "ExpressionAttributeValues": {":one": {"N": "1"}},
            }
            await asyncio.gather(*(aws.dynamodb.update_item(**add) for _ in range(UPDATES)))
            found = await aws.dynamodb.get_item(TableName="counters", Key=COUNTER, ConsistentRead=True)
    assert found["Item"]["n"] == {"N": str(UPDATES)}
