// SPDX-License-Identifier: Apache-2.0
// The official SDK in TypeScript as an agent's client: a stub of a model computes something in two turns. Prints what came back.
//
//     node agent.mjs http URL TOKEN ENVIRONMENT | stdio ENVIRONMENT COMMAND ARGUMENT...
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const [kind, ...rest] = process.argv.slice(2);
let transport, environment;

if (kind === 'http') {
    const [url, token, name] = rest;
    environment = name;
    transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } });
} else {
    const [name, command, ...args] = rest;
    environment = name;
    transport = new StdioClientTransport({ command, args, env: process.env, stderr: 'ignore' });
}

const model = (history) => {
    if (history.length === 0) return { code: 'primes = [n for n in range(2, 100) if all(n % d for d in range(2, n))]\nlen(primes)', environment };
    if (history.length === 1) return { code: `sum(primes) + ${history[0].value.text}`, session_id: history[0].session };
    return null;
};

const client = new Client({ name: 'berth-tests', version: '1' });
// With a token that is no client's it says what the server has said.
let stranger;
if (kind === 'http') {
    const other = new StreamableHTTPClientTransport(new URL(rest[0]), { requestInit: { headers: { Authorization: 'Bearer wrong' } } });
    stranger = await new Client({ name: 'berth-tests', version: '1' }).connect(other).then(() => 'connected', (error) => error.message);
}
await client.connect(transport);
// With the list of tools at hand the client holds each answer against its schema.
const tools = (await client.listTools()).tools.map((tool) => tool.name);
const history = [];
const progress = [];
for (let turn; (turn = model(history)); ) {
    const options = { onprogress: (told) => progress.push(told.progress), timeout: 300000 };
    const answer = await client.callTool({ name: 'run_code', arguments: turn }, undefined, options);
    history.push(answer.structuredContent);
}
const { session } = history[0];
await client.callTool({ name: 'write_file', arguments: { session_id: session, path: 'a.txt', content: 'from the client' } });
const uri = `berth://workspaces/${session}/a.txt`;
const text = (await client.readResource({ uri })).contents[0].text;
const templates = (await client.listResourceTemplates()).resourceTemplates.length;
const refused = await client.callTool({ name: 'read_file', arguments: { session_id: session, path: 'none' } });
// A call that is given up is cancelled: the session takes the next one.
const forever = { name: 'run_code', arguments: { session_id: session, code: 'import time\nwhile True: time.sleep(60)' } };
const gone = new AbortController();
const cancelled = client
    .callTool(forever, undefined, { signal: gone.signal, onprogress: () => gone.abort('enough'), timeout: 300000 })
    .then(() => false, () => true);
const wasCancelled = await cancelled;
const after = await client.callTool({ name: 'run_code', arguments: { session_id: session, code: 'len(primes)' } }, undefined, { timeout: 300000 });
await client.callTool({ name: 'end_session', arguments: { session_id: session } });
await client.close();
console.log(JSON.stringify({
    stranger, tools, history, progress, text, templates, wasCancelled,
    refused: refused.isError, after: after.structuredContent.value.text, server: client.getServerVersion().name,
}));
