// @modelcontextprotocol/client 2.x with @modelcontextprotocol/ext-tasks, in legacy and auto mode.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createTaskSessionFromClient } from "@modelcontextprotocol/ext-tasks/client";

import * as d from "./driver.mjs";

const { job } = d;
const CAPABILITIES = { elicitation: { form: {} } };

/** Sends requests below the client, which ext-tasks asks of a host for the newer protocol. */
function rawDispatch(transport, protocolVersion) {
  const pending = new Map();
  const toClient = transport.onmessage;
  transport.onmessage = (message, extra) => {
    const waiting = pending.get(message.id);
    if (waiting === undefined) return toClient(message, extra);
    pending.delete(message.id);
    const { result, error } = message;
    waiting.resolve(error === undefined ? { kind: "result", result } : { kind: "error", error });
  };
  let last = 0;
  return ({ method, params }, options = {}) => {
    const id = `raw-${(last += 1)}`;
    return new Promise((resolve, reject) => {
      pending.set(id, { resolve, reject });
      const milliseconds = options.context?.requestTimeoutMs ?? 60_000;
      const timer = setTimeout(() => reject(new Error("Request timed out")), milliseconds);
      timer.unref();
      transport.send({ jsonrpc: "2.0", id, method, params }, {}).catch(reject);
    });
  };
}

async function connected(answer) {
  const client = new Client(d.CLIENT, {
    capabilities: CAPABILITIES,
    versionNegotiation: { mode: job.era },
  });
  const transport = new StreamableHTTPClientTransport(new URL(job.url));
  await client.connect(transport);
  return { client, transport, ...session(client, transport, answer) };
}

function session(client, transport, answer) {
  const person = d.person(answer);
  const protocolVersion = client.getNegotiatedProtocolVersion();
  const modern = {
    rawDispatch: rawDispatch(transport, protocolVersion),
    v2RequestFraming: { protocolVersion, clientInfo: d.CLIENT, clientCapabilities: CAPABILITIES },
  };
  const tasks = createTaskSessionFromClient(client, {
    endpointId: job.url,
    onInputRequest: (request) => person.handler(request.params),
    ...(job.era === "auto" ? modern : {}),
  });
  return { tasks, asked: person.asked };
}

const asTask = (tasks, options = {}) =>
  tasks.callTool(d.call.name, d.call.arguments, { task: { preference: "require" }, ...options });

/** How an execution settles, as the runner compares it. */
async function settled(execution) {
  const { outcome } = await execution.settle();
  if (outcome.status === "completed") return d.shown(outcome.result);
  if (outcome.status === "failed") return { status: "failed", ...d.shownError(outcome.error) };
  return { status: outcome.status };
}

async function list() {
  const { client } = await connected();
  const { tools } = await client.listTools();
  const support = tools.map((tool) => [tool.name, tool.execution?.taskSupport ?? null]);
  return { protocol: client.getNegotiatedProtocolVersion(), tools: Object.fromEntries(support) };
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
  const { tasks } = await connected();
  return settled(await asTask(tasks));
}

const asking = (answer) => async () => {
  const { tasks, asked } = await connected(answer);
  const task = await settled(await asTask(tasks));
  if (job.era === "auto") return { asked, task };
  const plain = await settled(await tasks.callTool(d.call.name, {}));
  return { asked, task, plain };
};

async function failing() {
  const { client, tasks } = await connected();
  const execution = await asTask(tasks);
  const helper = await settled(execution);
  if (job.era === "auto") return helper;
  const { taskId } = execution.handle;
  return { helper: helper.message, ...(await payload(client, taskId)) };
}

/** What tasks/result of the older protocol holds, which the helper does not ask for. */
async function payload(client, taskId) {
  const any = { "~standard": { version: 1, vendor: "interop", validate: (value) => ({ value }) } };
  try {
    return d.shown(await client.request({ method: "tasks/result", params: { taskId } }, any));
  } catch (error) {
    return d.shownError(error);
  }
}

async function cancel() {
  const { tasks } = await connected();
  const execution = await asTask(tasks);
  await execution.cancel();
  const helper = await settled(execution);
  const later = await tasks.task(execution.handle.taskId).snapshot();
  return { helper: helper.status, status: later.status };
}

async function outlives() {
  const { client, tasks } = await connected();
  const plain = await d.refusal(client.callTool(d.slow, { timeout: job.timeout_ms }));
  const execution = await asTask(tasks, { requestTimeoutMs: job.timeout_ms });
  return { plain: plain.message, ...(await settled(execution)) };
}

async function leave() {
  const { tasks } = await connected(new Promise(() => {}));
  const execution = await asTask(tasks);
  d.tell({ task: execution.handle.taskId });
  return settled(execution);
}

async function resume() {
  const { tasks, asked } = await connected(d.ACCEPT);
  const execution = await tasks.resumeTask({
    endpointId: job.url,
    generation: job.era === "auto" ? "v2" : "v1",
    taskId: job.task,
    originalOperation: "tools/call",
  });
  return { asked, ...(await settled(execution)) };
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
