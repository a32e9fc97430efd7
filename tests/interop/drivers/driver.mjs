// What all drivers in JavaScript share. A driver does one job and tells what it saw, one JSON object a line.
//
// The job is the first argument: {url, flow, era, tool, seconds, timeout_ms, task}.

export const NAME = "Ada";
export const GREET = { name: "greet", arguments: { name: NAME } };
export const ACCEPT = { action: "accept", content: { name: NAME } };
export const DECLINE = { action: "decline" };
export const CLIENT = { name: "interop", version: "1.0.0" };

export const job = JSON.parse(process.argv[2]);
const computing = (name) => ({ name, arguments: { seconds: job.seconds } });
export const compute = computing("compute");
export const slow = computing("compute_inline");

/** The call that the job's flow is about. */
export const call = job.tool === "compute" ? compute : { name: job.tool, arguments: {} };

export function tell(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

/** Runs the job's flow and tells what it saw, or how it broke. */
export async function drive(flows) {
  try {
    tell({ seen: await flows[job.flow]() });
    process.exit(0);
  } catch (error) {
    process.stderr.write(`${error.stack}\ncause: ${error.cause?.stack}\n`);
    tell({ broke: `${error.name}: ${error.message}` });
    process.exit(1);
  }
}

/** The result of a tool, as the runner compares it. */
export function shown(result) {
  const text = result.content.map((block) => block.text).join("");
  return result.structuredContent === undefined || result.isError
    ? { text, ...(result.isError ? { is_error: true } : {}) }
    : { structured: result.structuredContent };
}

/** The error that `promise` rejects with. */
export async function refusal(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("This was to fail, and did not");
}

export function shownError({ code, message, data }) {
  return JSON.parse(JSON.stringify({ code, message, data }));
}

/** A handler of questions that gives `answer`; `asked` collects their messages. */
export function person(answer) {
  const asked = [];
  const handler = (params) => {
    asked.push(params.message);
    return answer;
  };
  return { asked, handler };
}

/** What a host does that knows no tasks: a plain call that takes too long, continued by a companion tool. */
export async function continued(callTool) {
  const first = await callTool(compute);
  const text = first.content[0].text;
  const task_id = text.match(/task id is (\S+)\./)[1];
  const second = await callTool({ name: "task_result", arguments: { task_id } });
  return { first: text.split(" after ")[0], text: second.content[0].text, status: second.structuredContent.status };
}
