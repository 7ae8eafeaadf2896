// SPDX-License-Identifier: Apache-2.0
// Vercel AI SDK: Berth's tools by its MCP client, its model by Anthropic's Messages, as streams.
import { createAnthropic } from '@ai-sdk/anthropic';
import { createMCPClient } from '@ai-sdk/mcp';
import { Experimental_StdioMCPTransport } from '@ai-sdk/mcp/mcp-stdio';
import { stepCountIs, streamText } from 'ai';

const { BERTH, BERTH_STACK, BERTH_TOKEN, BERTH_URL, MODEL_URL } = process.env;
const [kind, prompt] = process.argv.slice(2);
const transport = kind === 'stdio'
    ? new Experimental_StdioMCPTransport({ command: BERTH, args: ['mcp', '-f', BERTH_STACK] })
    : { type: 'http', url: BERTH_URL + '/mcp', headers: { Authorization: 'Bearer ' + BERTH_TOKEN } };
const berth = await createMCPClient({ transport });
try {
    const anthropic = createAnthropic({ baseURL: MODEL_URL + '/v1', apiKey: 'stub' });
    const result = streamText({
        model: anthropic('claude-sonnet-4-5'), tools: await berth.tools(), stopWhen: stepCountIs(20), prompt, maxRetries: 0,
        onError: ({ error }) => { throw error; },
    });
    console.log(await result.text);
} finally {
    await berth.close();
}
