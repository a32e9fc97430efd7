"""The steps of the tour, over the sample pipelines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

from .client import JsonObject
from .tour_guide import Guide, expect

_INVALID_PARAMS = -32602
_MISSING_CAPABILITY = -32021
_USED = ("place_order", "sales_report", "import_ledger", "nightly_export", "purge_customer")


@dataclass(frozen=True, slots=True)
class Step:
    title: str
    run: Callable[[Guide], Awaitable[None]]


async def _list(guide: Guide) -> None:
    guide.tools = {tool["name"]: tool for tool in await guide.client.tools()}
    for tool in guide.tools.values():
        guide.say(f"{tool['name']}: {tool['title']}")
    expect(guide.tools.keys() >= set(_USED), f"not all of {', '.join(_USED)} are there")


async def _report(guide: Guide) -> None:
    final = await guide.run("sales_report", day="2026-07-28")
    expect(final["status"] == "completed", f"the task is {final['status']}")
    report = _data(final)
    guide.say(f"It completed: {report['total']} EUR in {len(report['regions'])} regions.")
    expect(report["total"] == sum(r["revenue"] for r in report["regions"]), "the total is not the sum")


async def _approve(guide: Guide) -> None:
    task = await guide.start("place_order", order_id="A-1001", customer="Ada", amount=250)
    key, _ = await guide.until_asked(task)
    wrong = {"action": "accept", "content": {"delivery": "drone"}}
    refusal = await guide.refused(guide.answer(task, key, wrong), _INVALID_PARAMS)
    guide.say(f"An answer that does not fit is refused: {refusal.rpc_message}")
    await guide.answer(task, key, {"action": "accept", "content": {"delivery": "express"}})
    after = await guide.client.on_task("tasks/get", task["taskId"])
    expect(key not in after.get("inputRequests", {}), "the answered question is still shown")
    order = _data(await guide.until(task, "completed"))
    guide.say(f"Accepted with express delivery; the order is {order['status']}.")
    expect((order["status"], order["delivery"]) == ("shipped", "express"), f"the order is {order}")


async def _decline(guide: Guide) -> None:
    task = await guide.start("place_order", order_id="A-1002", customer="Bob", amount=9000)
    key, _ = await guide.until_asked(task)
    await guide.answer(task, key, {"action": "decline"})
    order = _data(await guide.until(task, "completed"))
    guide.say(f"Declined, which the workflow takes as data; the order is {order['status']}.")
    expect(order["status"] == "declined", f"the order is {order}")


async def _confirm(guide: Guide) -> None:
    call: JsonObject = {"arguments": {"customer_id": "C-17"}}
    asked = await guide.client.call_tool(guide.tools["purge_customer"], call)
    expect(asked.get("resultType") == "input_required", "it did not ask first")
    expect("taskId" not in asked, "there is a task before the answer")
    guide.say(f"Before anything starts: {asked['inputRequests']['confirm']['params']['message']}")
    confirmed = {
        **call,
        "requestState": asked["requestState"],
        "inputResponses": {"confirm": {"action": "accept", "content": {"confirm": True}}},
    }
    task = await guide.client.call_tool(guide.tools["purge_customer"], confirmed)
    again = await guide.client.call_tool(guide.tools["purge_customer"], confirmed)
    expect(task["taskId"] == again["taskId"], "the same confirmation started two tasks")
    guide.say(f"Confirmed: task {task['taskId']}. Sent twice, the confirmation gives the same task.")
    final = await guide.until(task, "completed")
    guide.say(_text(final["result"]))


async def _confirm_not(guide: Guide) -> None:
    final = await guide.run("purge_customer", customer_id="C-18")
    guide.say(_text(final["result"]))
    expect("taskId" not in final, "there is a task")
    expect(final["result"].get("isError"), "it is no error result")


async def _fail(guide: Guide) -> None:
    final = await guide.run("import_ledger", file="june.xlsx")
    guide.say(f"{final['status']}, as an error that a model can read: {_text(final['result'])}")
    expect(final["status"] == "completed", "a failed job is a completed task with an error result")
    expect(final["result"].get("isError"), "it is no error result")
    expect("june.xlsx" in _text(final["result"]), "the cause does not name the file")


async def _time_out(guide: Guide) -> None:
    final = await guide.run("nightly_export", seconds=30)
    guide.say(f"{final['status']}: {_text(final['result'])}")
    expect(final["result"].get("isError"), "it is no error result")
    expect("timed out" in _text(final["result"]), "it does not say that it timed out")


async def _cancel(guide: Guide) -> None:
    task = await guide.start("place_order", order_id="A-1003", customer="Eve", amount=500)
    await guide.until_asked(task)
    await guide.client.on_task("tasks/cancel", task["taskId"])
    after = await guide.client.on_task("tasks/get", task["taskId"])
    expect("inputRequests" not in after, "the question is still shown")
    final = await guide.until(task, "cancelled")
    guide.say(f"Cancelled while it was asking: the question is gone, the task is {final['status']}.")


async def _inline(guide: Guide) -> None:
    told: list[str] = []

    def note(message: JsonObject) -> None:
        told.append(str(message["params"].get("message")))
        guide.say(f"progress: {told[-1]}")

    call = {"arguments": {"day": "2026-07-28"}}
    result = await guide.simple.call_tool(guide.tools["sales_report"], call, on_notification=note)
    guide.say(f"The reply to the call itself was the result: {_text(result)}")
    expect(result.get("resultType") == "complete", f"the reply is {result}")
    expect(told, "no progress was told")


async def _needs_tasks(guide: Guide) -> None:
    call = guide.simple.call_tool(guide.tools["nightly_export"], {"arguments": {"seconds": 1}})
    refusal = await guide.refused(call, _MISSING_CAPABILITY)
    guide.say(f"Refused before anything started: {refusal.rpc_message}")


async def _listen(guide: Guide) -> None:
    task = await guide.start("place_order", order_id="A-1004", customer="Joe", amount=40)
    seen: list[str] = []
    ended = False
    async with aclosing(guide.client.listen([task["taskId"]])) as messages:
        async for message in messages:
            ended = "result" in message
            if message.get("method") == "notifications/tasks":
                state = message["params"]
                seen.append(state["status"])
                guide.say(f"told: {state['status']} {state.get('statusMessage', '')}")
    expect(seen[:1] == ["working"], f"the first state told is {seen[:1]}")
    expect(seen[-1:] == ["completed"], f"the last state told is {seen[-1:]}")
    expect(ended, "the stream did not end with its result")
    guide.say("After the last change the server ended the stream by itself.")


def _data(final: JsonObject) -> JsonObject:
    data: JsonObject = final["result"]["structuredContent"]
    return data


def _text(result: JsonObject) -> str:
    return str(result["content"][0]["text"])


STEPS = (
    Step("State machines are listed as tools", _list),
    Step("A report runs as a task and tells its progress", _report),
    Step("A running workflow asks for approval, and gets it", _approve),
    Step("The next approval is declined", _decline),
    Step("A destructive tool is confirmed before it starts", _confirm),
    Step("Without the confirmation nothing starts", _confirm_not),
    Step("A job fails and says why", _fail),
    Step("A job takes too long and is ended by its time limit", _time_out),
    Step("A job is cancelled", _cancel),
    Step("A client that knows no tasks gets the result in the reply", _inline),
    Step("A tool that has to be a task refuses such a client", _needs_tasks),
    Step("A subscription follows a task instead of polling", _listen),
)
