// SPDX-License-Identifier: Apache-2.0
// What the page asks the server, and with what. The token lies in sessionStorage, which is this tab's alone and ends with it; it
// goes into the header Authorization, and nowhere else.

const TOKEN = "berth.token", OWNER = "berth.owner";
const AGAIN = 3; // times that a request is made which came too early

/** Why the server did not do it: its problem (RFC 9457), or that it did not answer. */
export class Problem extends Error {
        constructor(status, code, detail, remedy) {
                super(detail);
                Object.assign(this, { status, code, remedy });
        }
}

export const isSignedIn = () => sessionStorage.getItem(TOKEN) !== null;
export const ownerName = () => sessionStorage.getItem(OWNER) ?? "";

export function signIn(token) {
        sessionStorage.setItem(TOKEN, token);
}

export function nameOwner(name) {
        if (name)
                sessionStorage.setItem(OWNER, name);
        else
                sessionStorage.removeItem(OWNER);
}

export function signOut() {
        sessionStorage.removeItem(TOKEN);
        sessionStorage.removeItem(OWNER);
}

/**
 * A part of an address of the API: an id or a path, which may hold anything. Dots alone would lead to another address, whatever is
 * done to hide them; nothing is called so.
 */
export function pathOf(path) {
        const names = path.split("/");

        if (names.some((name) => name === "" || name === "." || name === ".."))
                throw new Problem(404, "not-found", "There is no such thing.");
        return names.map(encodeURIComponent).join("/");
}

/** A header holds bytes; names are UTF-8. */
function bytesOf(text) {
        return String.fromCharCode(...new TextEncoder().encode(text));
}

async function problemOf(response) {
        try {
                const { code, detail, remedy } = await response.json();

                return new Problem(response.status, code, detail, remedy);
        } catch {
                return new Problem(response.status, "unknown", `The server answered ${response.status}.`);
        }
}

/** The answer, whatever its body; throws a Problem, or an AbortError where the signal came. */
export async function ask(path, { method = "GET", body, headers = {}, signal } = {}) {
        const sent = { ...headers, Authorization: `Bearer ${sessionStorage.getItem(TOKEN)}` };

        if (ownerName())
                sent["Berth-Owner"] = bytesOf(ownerName());
        if (body !== undefined)
                sent["Content-Type"] = "application/json";
        for (let tries = 1; ; tries++) {
                let response;

                try {
                        response = await fetch(path, { method, headers: sent, signal, cache: "no-store", credentials: "omit",
                                redirect: "error", body: body === undefined ? undefined : JSON.stringify(body) });
                } catch (error) {
                        if (error.name === "AbortError")
                                throw error;
                        throw new Problem(0, "unreachable", "The server does not answer.", "See whether berth serve runs.");
                }
                if (response.ok)
                        return response;
                if (response.status === 429 && method === "GET" && tries < AGAIN && !signal?.aborted) {
                        await new Promise((go) => setTimeout(go, 1000 * tries));
                        continue;
                }
                const problem = await problemOf(response);

                if (problem.code === "unauthenticated")
                        dispatchEvent(new CustomEvent("berth-refused"));
                throw problem;
        }
}

export async function get(path, signal) {
        const response = await ask(path, { signal });

        try {
                return await response.json();
        } catch (error) {
                throw error.name === "AbortError" ? error : new Problem(0, "broken", "The server's answer broke off.");
        }
}

/** All items of a list, page by page, up to `most`; `more`: there are others. */
export async function list(path, signal, most = 5000) {
        const items = [];
        let cursor = null;

        do {
                const limit = Math.min(1000, most - items.length);
                const query = new URLSearchParams({ limit, ...(cursor === null ? {} : { cursor }) });
                const page = await get(`${path}${path.includes("?") ? "&" : "?"}${query}`, signal);

                items.push(...page.items);
                cursor = page.cursor;
        } while (cursor !== null && items.length < most);
        return { items, more: cursor !== null };
}

/** The events of a stream, as they come: {id, event, data}. It ends where the server ends it. */
export async function* follow(path, signal, opened) {
        const response = await ask(path, { headers: { Accept: "text/event-stream" }, signal });
        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
        let text = "";

        opened?.();
        for (;;) {
                const { value, done } = await reader.read();
                let end;

                if (done)
                        return;
                text += value;
                while ((end = text.indexOf("\n\n")) >= 0) {
                        const found = { id: "", event: "message", data: "" };

                        for (const line of text.slice(0, end).split("\n")) {
                                const colon = line.indexOf(": ");

                                if (colon > 0)
                                        found[line.slice(0, colon)] = line.slice(colon + 2);
                        }
                        text = text.slice(end + 2);
                        if (found.data)
                                yield { id: found.id, event: found.event, data: JSON.parse(found.data) };
                }
        }
}

/**
 * Has the browser download a workspace's file, or, where there is no path, all of them. A browser's
 * download has no header of ours, so it gets an address that the server makes for it: good once,
 * for a minute, for this file and this client alone.
 */
export async function download(workspace, path) {
        const body = path === undefined ? {} : { path };
        const answer = await ask(`/v1/workspaces/${pathOf(workspace)}/tickets`, { method: "POST", body });
        const link = document.createElement("a");

        link.href = (await answer.json()).address;
        link.download = "";
        link.click();
}
