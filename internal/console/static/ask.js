// The calls of the contract, relative to the page, so that they work below any
// prefix.

export const address = (path) => new URL(path, document.baseURI).href;

// Refused is an answer that is not the one asked for, in the contract's words.
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `The server answered ${status}.`);
    this.status = status;
    this.errors = problem.errors || [];
  }
}

// ask makes a call and returns what it answers. patience is in ms.
export async function ask(method, path, body, patience = 10000) {
  let answer;
  try {
    answer = await fetch(address(path), {
      method, cache: "no-store", signal: AbortSignal.timeout(patience),
      ...(body !== undefined && { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } }),
    });
  } catch {
    throw new Refused(0, { detail: "decider did not answer." });
  }
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, told);
  return told;
}

export const dependencyPath = (name) => `v1/dependencies/${encodeURIComponent(name)}`;

// curl is the same request for a terminal. A key is not the page's to know.
export function curl(method, path, body) {
  const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
  const lines = [`curl -s${method === "POST" ? "" : ` -X ${method}`} ${quoted(address(path))}`];
  if (body !== undefined) lines.push(`  -H 'Content-Type: application/json'`, `  -d ${quoted(JSON.stringify(body))}`);
  return lines.join(" \\\n");
}
