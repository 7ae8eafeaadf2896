// SPDX-License-Identifier: Apache-2.0
// E2B's SDK in JavaScript, as a program written for E2B uses it: it knows the server by the variables E2B_API_KEY, E2B_API_URL and
// E2B_SANDBOX_URL. Prints what came back.
import { Sandbox } from '@e2b/code-interpreter';

const said = {};
const failure = async (attempt) => {
    try {
        await attempt();
        return null;
    } catch (error) {
        return { name: error.name, message: error.message };
    }
};

// What the quickstart does.
const box = await Sandbox.create({ timeoutMs: 3000000, metadata: { team: 'a b & c=d' }, envs: { FROM: 'create' } });
try {
    await box.runCode('x = 1');
    const execution = await box.runCode('x += 1; x');
    said.quickstart = [execution.text, execution.error ?? null, execution.executionCount];

    const streamed = [];
    const printed = await box.runCode("import sys, os\nprint('out')\nprint('err', file=sys.stderr)\nos.environ['FROM'], os.environ['RUN']", {
        onStdout: (line) => streamed.push(line.line),
        onStderr: (line) => streamed.push(line.line),
        envs: { RUN: 'this' },
    });
    said.printed = [printed.logs.stdout.join(''), printed.logs.stderr.join(''), printed.text, streamed.sort()];
    const shown = await box.runCode("class Chart:\n    def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n'\n    def __repr__(self): return 'a chart'\ndisplay(Chart())\nChart()");
    said.shown = shown.results.map((result) => [result.png, result.text, result.isMainResult]);
    const { error } = await box.runCode('1 / 0');
    said.error = [error.name, error.value, error.traceback.includes('1 / 0')];
    said.shell = (await box.runCode('echo $((6 * 7))', { language: 'bash' })).logs.stdout.join('');
    said.language = await failure(() => box.runCode('1', { language: 'r' }));

    const context = await box.createCodeContext({ language: 'python', cwd: '/home/user' });
    said.context = [context.language, context.cwd, (await box.runCode('x', { context })).error.name];
    await box.runCode('x = 7', { context });
    said.apart = [(await box.runCode('x', { context })).text, (await box.runCode('x')).text];
    said.contexts = (await box.listCodeContexts()).map((found) => found.id === context.id || found.id);
    await box.restartCodeContext(context);
    said.restarted = (await box.runCode('x', { context })).error.name;
    await box.removeCodeContext(context);
    said.removed = await failure(() => box.runCode('x', { context }));

    // Code that nobody waits for any more is interrupted, and keeps what it had.
    await box.runCode('y = 5');
    said.left = await failure(() => box.runCode('import time\nwhile True: time.sleep(0.05)', { timeoutMs: 1000 }));
    said.after = (await box.runCode('y')).text;

    const written = await box.files.write('/home/user/data/größe.txt', '10 m\n');
    said.written = [written.name, written.path, written.type];
    const both = await box.files.write([{ path: 'a/1.bin', data: new Uint8Array([0, 255]).buffer }, { path: 'a/2 ü.txt', data: 'two' }]);
    said.both = both.map((found) => found.path);
    said.bytes = [...(await box.files.read('a/1.bin', { format: 'bytes' }))];
    const pieces = [];
    for await (const piece of await box.files.read('a/2 ü.txt', { format: 'stream' })) pieces.push(Buffer.from(piece));
    said.streamed = Buffer.concat(pieces).toString();
    said.blob = await (await box.files.read('a/2 ü.txt', { format: 'blob' })).text();
    said.read = [await box.files.read('data/größe.txt'), (await box.runCode("open('data/größe.txt').read()")).text];
    said.made = [await box.files.makeDir('tree/deep'), await box.files.makeDir('tree/deep'), await box.files.exists('tree/never')];
    said.listed = (await box.files.list('/workspace/a')).map((entry) => [entry.path, entry.type, entry.size]);
    const info = await box.files.getInfo('a/1.bin');
    said.info = [info.path, info.size, info.modifiedTime instanceof Date];
    said.renamed = (await box.files.rename('a/1.bin', 'tree/deep/1.bin')).path;
    await box.files.remove('tree');
    said.gone = [await box.files.exists('tree'), (await failure(() => box.files.read('tree/deep/1.bin'))).name];
    said.outside = [await failure(() => box.files.read('/etc/passwd')), await failure(() => box.files.write('../x', 'y'))].map((found) => found.name);

    said.uncovered = [await failure(() => box.commands.run('true')), await failure(() => box.files.watchDir('/workspace', () => {}))].map((found) => found.message);

    const about = await box.getInfo();
    said.about = [about.sandboxId === box.sandboxId, about.templateId, about.metadata, about.state, Math.round((about.endAt - about.startedAt) / 1000)];
    await box.setTimeout(5000000);
    said.longer = Math.round((await box.getInfo()).endAt - about.startedAt) > 4000000;
    const mine = Sandbox.list({ query: { metadata: { team: 'a b & c=d' }, state: ['running'] }, limit: 1 });
    said.mine = [(await mine.nextItems()).map((found) => found.sandboxId === box.sandboxId), mine.hasNext];
    said.running = [await box.isRunning()];
    await box.pause();
    said.running.push(await box.isRunning(), (await box.getInfo()).state);
    const again = await Sandbox.connect(box.sandboxId, { timeoutMs: 600000 });
    said.again = [(await again.runCode('x + y')).text, await again.isRunning()];
    said.refused = (await failure(() => Sandbox.create({ apiKey: 'e2b_' + '0'.repeat(40) }))).name;
    said.template = await failure(() => Sandbox.create('never'));
} finally {
    said.killed = [await box.kill(), await Sandbox.kill(box.sandboxId), await box.isRunning()];
}
said.ended = (await failure(() => Sandbox.connect(box.sandboxId))).name;
console.log(JSON.stringify(said));
