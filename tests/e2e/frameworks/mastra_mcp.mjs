// SPDX-License-Identifier: Apache-2.0
// Mastra: Berth's tools by its MCP client, its model by OpenAI's Chat Completions.
import { createOpenAI } from '@ai-sdk/openai';
import { Agent } from '@mastra/core/agent';
import { MCPClient } from '@mastra/mcp';

const { BERTH, BERTH_STACK, BERTH_TOKEN, BERTH_URL, MODEL_URL } = process.env;
const [kind, prompt] = process.argv.slice(2);
// Mastra waits 60 seconds for a tool unless it is told otherwise.
const server = kind === 'stdio'
    ? { command: BERTH, args: ['mcp', '-f', BERTH_STACK], timeout: 900_000 }
    : { url: new URL(BERTH_URL + '/mcp'), requestInit: { headers: { Authorization: 'Bearer ' + BERTH_TOKEN } }, timeout: 900_000 };
const mcp = new MCPClient({ id: 'berth', servers: { berth: server } });
try {
    const openai = createOpenAI({ baseURL: MODEL_URL + '/v1', apiKey: 'stub' });
    const agent = new Agent({ id: 'analyst', name: 'analyst', instructions: 'Compute with run_code.', model: openai.chat('gpt-5'), tools: await mcp.listTools() });
    console.log((await agent.generate(prompt, { maxSteps: 20 })).text);
} finally {
    await mcp.disconnect();
}
