// @modelcontextprotocol/sdk 1.x with its experimental tasks.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { CallToolResultSchema, ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

import * as d from "./driver.mjs";

const { job } = d;
const timeout = { timeout: job.timeout_ms };

async function connected(answer) {
  const client = new Client(d.CLIENT, { capabilities: { elicitation: { form: {} } } });
  const person = d.person(answer);
  client.setRequestHandler(ElicitRequestSchema, (request) => person.handler(request.params));
  const transport = new StreamableHTTPClientTransport(new URL(job.url));
  await client.connect(transport);
  return { client, transport, asked: person.asked, tasks: client.experimental.tasks };
}

/** Drives a call as a task with the stream helper: what it yields last, and the task. */
async function streamed(client, { onTask = () => {}, options = {} } = {}) {
  let task, last;
  for await (const message of client.experimental.tasks.callToolStream(d.call, CallToolResultSchema, {
    task: {},
    ...options,
  })) {
    last = message;
    if (message.type === "taskCreated") {
      task = message.task;
      await onTask(task);
    }
  }
  return { task, last };
}

function finished({ last }) {
  if (last.type !== "result") throw new Error(`no result but ${last.type}`, { cause: last.error });
  return d.shown(last.result);
}

async function list() {
  const { client, transport } = await connected();
  const { tools } = await client.listTools();
  const support = tools.map((tool) => [tool.name, tool.execution?.taskSupport]);
  return { protocol: transport.protocolVersion, tools: Object.fromEntries(support) };
}

async function plain() {
  const { client } = await connected();
  return d.shown(await client.callTool(d.GREET));
}

async function continued() {
  const { client } = await connected();
  return d.continued((call) => client.callTool(call));
}

async function task() {
  const { client, tasks } = await connected();
  const helper = finished(await streamed(client));
  // The plainest way as well: ask for the result at once, which blocks until it is there.
  let blocking;
  const onTask = async ({ taskId }) => (blocking = d.shown(await tasks.getTaskResult(taskId, CallToolResultSchema)));
  await streamed(client, { onTask });
  return { ...helper, blocking };
}

const asking = (answer) => async () => {
  const { client, asked } = await connected(answer);
  const task = finished(await streamed(client));
  const plain = d.shown(await client.callTool(d.call));
  return { asked, task, plain };
};

async function failing() {
  const { client, tasks } = await connected();
  const { task, last } = await streamed(client);
  const helper = last.error.message;
  try {
    return { helper, ...d.shown(await tasks.getTaskResult(task.taskId, CallToolResultSchema)) };
  } catch (error) {
    return { helper, ...d.shownError(error) };
  }
}

async function cancel() {
  const { client, tasks } = await connected();
  let answer;
  const { task, last } = await streamed(client, {
    onTask: async ({ taskId }) => (answer = await tasks.cancelTask(taskId)),
  });
  const later = await tasks.getTask(task.taskId);
  return { answer: answer.status, helper: last.error.message, status: later.status };
}

async function outlives() {
  const { client } = await connected();
  const plain = await d.refusal(client.callTool(d.slow, CallToolResultSchema, timeout));
  return { plain: plain.message, ...finished(await streamed(client, { options: timeout })) };
}

async function leave() {
  const { client } = await connected(new Promise(() => {}));
  return finished(await streamed(client, { onTask: ({ taskId }) => d.tell({ task: taskId }) }));
}

async function resume() {
  const { client, asked, tasks } = await connected(d.ACCEPT);
  // A question comes with the status; without one, waiting for the result is enough.
  if (job.tool === "ask_name") {
    while (!["completed", "failed"].includes((await tasks.getTask(job.task)).status))
      await new Promise((resolve) => setTimeout(resolve, 250));
  }
  return { asked, ...d.shown(await tasks.getTaskResult(job.task, CallToolResultSchema)) };
}

await d.drive({
  list,
  plain,
  continued,
  task,
  accept: asking(d.ACCEPT),
  decline: asking(d.DECLINE),
  tool_error: failing,
  rpc_error: failing,
  cancel,
  outlives,
  leave,
  resume,
});
