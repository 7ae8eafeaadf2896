// SPDX-License-Identifier: Apache-2.0
// OpenAI Agents SDK for JavaScript: Berth's tools by its MCP servers, its model by Responses, as streams.
import { Agent, MCPServerStdio, MCPServerStreamableHttp, OpenAIProvider, Runner, setTracingDisabled } from '@openai/agents';

setTracingDisabled(true);
const { BERTH, BERTH_STACK, BERTH_TOKEN, BERTH_URL, MODEL_URL } = process.env;
const [kind, prompt] = process.argv.slice(2);
const common = { name: 'berth', cacheToolsList: true, timeout: 900_000, clientSessionTimeoutSeconds: 900 };
const berth = kind === 'stdio'
    ? new MCPServerStdio({ ...common, command: BERTH, args: ['mcp', '-f', BERTH_STACK] })
    : new MCPServerStreamableHttp({ ...common, url: BERTH_URL + '/mcp', requestInit: { headers: { Authorization: 'Bearer ' + BERTH_TOKEN } } });
await berth.connect();
try {
    const agent = new Agent({ name: 'analyst', model: 'gpt-5', instructions: 'Compute with run_code.', mcpServers: [berth] });
    const runner = new Runner({ modelProvider: new OpenAIProvider({ apiKey: 'stub', baseURL: MODEL_URL + '/v1', useResponses: true }) });
    const result = await runner.run(agent, prompt, { stream: true });
    await result.completed;
    console.log(result.finalOutput);
} finally {
    await berth.close();
}
