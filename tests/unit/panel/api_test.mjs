// SPDX-License-Identifier: Apache-2.0
// What the page asks, and what it makes of answers; the server here is a list of answers.

import assert from "node:assert/strict";
import test from "node:test";

import * as api from "../../../panel/api.js";

const stored = new Map(), told = [];

globalThis.sessionStorage = {
        getItem: (name) => stored.get(name) ?? null,
        setItem: (name, value) => stored.set(name, value),
        removeItem: (name) => stored.delete(name),
};
globalThis.dispatchEvent = (event) => told.push(event.type);

/** Answers in turn, and what was asked. */
function serve(t, ...answers) {
        const asked = [];

        stored.clear();
        told.length = 0;
        api.signIn("token");
        t.mock.method(globalThis, "fetch", async (path, options) => {
                const answer = answers[asked.length];

                asked.push({ path, ...options });
                if (answer instanceof Error)
                        throw answer;
                return new Response(typeof answer[1] === "string" ? answer[1] : JSON.stringify(answer[1]), { status: answer[0] });
        });
        return asked;
}

const problem = (status, code) => [status, { status, code, detail: "a detail", remedy: "a remedy" }];

for (const [path, wanted] of [["a", "a"], ["in/a b", "in/a%20b"], ["?#%/ü", "%3F%23%25/%C3%BC"], ["..a/b.", "..a/b."]])
        test(`pathOf: ${path}`, () => assert.equal(api.pathOf(path), wanted));

for (const path of ["", ".", "..", "a/../b", "a/./b", "/a", "a/", "a//b"])
        test(`pathOf leads nowhere else: ${JSON.stringify(path)}`, () => assert.throws(() => api.pathOf(path), { status: 404, code: "not-found" }));

test("the token is in a header, and the owner in another as bytes", async (t) => {
        const asked = serve(t, [200, {}], [200, {}]);

        await api.get("/v1/sessions");
        api.nameOwner("zoë");
        await api.get("/v1/sessions");
        assert.deepEqual(asked.map(({ path }) => path), ["/v1/sessions", "/v1/sessions"]);
        assert.deepEqual(asked[0].headers, { Authorization: "Bearer token" });
        assert.equal(asked[1].headers["Berth-Owner"], "zo\xc3\xab");
        assert.ok(asked.every(({ credentials, redirect, cache }) => credentials === "omit" && redirect === "error" && cache === "no-store"));
});

test("all pages of a list, up to the most", async (t) => {
        const asked = serve(t, [200, { items: [1, 2], cursor: "c&1" }], [200, { items: [3], cursor: null }]);

        assert.deepEqual(await api.list("/v1/x?a=b"), { items: [1, 2, 3], more: false });
        assert.deepEqual(asked.map(({ path }) => path), ["/v1/x?a=b&limit=1000", "/v1/x?a=b&limit=1000&cursor=c%261"]);
        serve(t, [200, { items: [1, 2], cursor: "more" }]);
        assert.deepEqual(await api.list("/v1/x", undefined, 2), { items: [1, 2], more: true });
});

test("a request that came too early is made three times, a change once", async (t) => {
        t.mock.method(globalThis, "setTimeout", (go) => go());
        let asked = serve(t, problem(429, "too-many-requests"), problem(429, "too-many-requests"), [200, { found: true }]);

        assert.deepEqual(await api.get("/v1/x"), { found: true });
        assert.equal(asked.length, 3);
        asked = serve(t, ...Array(4).fill(problem(429, "too-many-requests")));
        await assert.rejects(api.get("/v1/x"), { status: 429 });
        assert.equal(asked.length, 3);
        asked = serve(t, problem(429, "too-many-requests"));
        await assert.rejects(api.ask("/v1/x", { method: "POST", body: {} }), { status: 429 });
        assert.equal(asked.length, 1);
});

for (const [name, answer, wanted, events] of [
        ["a problem", problem(409, "has-sessions"), { status: 409, code: "has-sessions", message: "a detail", remedy: "a remedy" }, []],
        ["a token that is refused", problem(401, "unauthenticated"), { status: 401, code: "unauthenticated" }, ["berth-refused"]],
        ["no problem's form", [502, "<html>"], { status: 502, code: "unknown", message: "The server answered 502." }, []],
        ["no answer", new TypeError("failed"), { status: 0, code: "unreachable" }, []],
        ["half an answer", [200, '{"items": ['], { status: 0, code: "broken" }, []],
        ["an end that was asked for", new DOMException("", "AbortError"), { name: "AbortError" }, []],
])
        test(`what an answer becomes: ${name}`, async (t) => {
                serve(t, answer);
                await assert.rejects(api.get("/v1/x"), wanted);
                assert.deepEqual(told, events);
        });

test("events of a stream, however it comes in pieces", async (t) => {
        const text = ":\n\nid: 1\nevent: session\ndata: {\"a\": \"b: c\"}\n\nevent: no-data\n\ndata: 2\n\nid: 3\ndata: 3\n";

        for (const size of [1, 7, text.length]) {
                const found = [];

                serve(t, [200, ""]);
                t.mock.method(globalThis, "fetch", async () => new Response(new ReadableStream({
                        start(stream) {
                                for (let at = 0; at < text.length; at += size)
                                        stream.enqueue(new TextEncoder().encode(text.slice(at, at + size)));
                                stream.close();
                        },
                })));
                for await (const event of api.follow("/v1/events"))
                        found.push(event);
                assert.deepEqual(found, [{ id: "1", event: "session", data: { a: "b: c" } }, { id: "", event: "message", data: 2 }]);
        }
});
