// SPDX-License-Identifier: Apache-2.0
// Containers: how they are, what they print, and what can be done to them.
import { ask, list, pathOf, Problem } from "./api.js";
import { element, every, keep, mark, say } from "./dom.js";
import { shown, shownBlock } from "./text.js";
import { cell, fill, makeTable, statusOf, tellProblem } from "./table.js";

const LOOK_MS = 2000;
const LINES_MAX = 5000;
const SOONEST = 500, LATEST = 8000; // milliseconds until logs that broke off are asked for again
const COLUMNS = ["Name", "Agent", "Status", "CPU", "Memory", "Actions"];

const nameOf = (container) => container.name ?? container.id;

function percent(usage) {
        return typeof usage?.cpuPercent === "number" ? `${usage.cpuPercent.toFixed(1)} %` : "";
}

function megabytes(usage) {
        return typeof usage?.memoryBytes === "number" ? `${(usage.memoryBytes / 1048576).toFixed(1)} MB` : "";
}

// --- logs ---

/**
 * Lines as they come, over ends of the stream. A stream is asked for from the second of the newest
 * line on: what was told of that second and later comes again, and is counted so that it is told
 * once. A missing log (another owner's, or gone) is thrown as a Problem.
 */
async function* linesOf(id, signal) {
        const told = new Map(); // how often a line of `since` or later was told
        let since = null, pause = SOONEST;

        while (!signal.aborted) {
                try {
                        const query = new URLSearchParams({ follow: "true", ...(since === null ? { tail: "500" } : { since }) });
                        const response = await ask(`/v1/containers/${pathOf(id)}/logs?${query}`,
                                { signal, headers: { Accept: "application/jsonl, application/x-ndjson, text/plain;q=0.5" } });
                        const isJson = response.headers.get("Content-Type")?.includes("json");
                        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
                        const again = new Map([...told].map(([key, { count }]) => [key, count]));
                        let rest = "";

                        for (;;) {
                                const { value, done } = await reader.read();

                                if (done)
                                        break;
                                const lines = (rest + value).split("\n");

                                rest = lines.pop();
                                for (const line of lines.filter((text) => text !== "")) {
                                        const found = isJson ? JSON.parse(line) : { at: null, text: line };

                                        const key = JSON.stringify([found.at, found.stream, found.text]);

                                        if (again.get(key) > 0) {
                                                again.set(key, again.get(key) - 1);
                                                continue;
                                        }
                                        if (found.at !== null && (since === null || found.at > since)) {
                                                since = found.at;
                                                told.forEach(({ at }, old) => at < since && told.delete(old));
                                        }
                                        if (found.at !== null && found.at === since)
                                                told.set(key, { at: found.at, count: (told.get(key)?.count ?? 0) + 1 });
                                        pause = SOONEST;
                                        yield found;
                                }
                        }
                } catch (error) {
                        if (signal.aborted)
                                return;
                        if (error instanceof Problem && error.status >= 400 && error.status < 500 && error.status !== 429)
                                throw error;
                }
                await new Promise((go) => setTimeout(go, pause));
                pause = Math.min(LATEST, 2 * pause);
        }
}

function makeLogs(container, signal) {
        const name = shown(nameOf(container));
        const stop = new AbortController();
        const log = element("div", { role: "log", "aria-label": `Logs ${name}`, tabindex: 0, class: "log" });
        const told = element("div", {});
        const root = element("section", { class: "logs" }, element("h2", {}, `Logs of ${name}`), told, log);
        const read = async () => {
                for await (const { at, stream, text } of linesOf(container.id, stop.signal)) {
                        const isAtEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 8;

                        log.append(element("p", { class: stream === "stderr" ? "stderr" : null, title: at, text: shownBlock(text.replace(/\n$/, "")) }));
                        if (log.children.length > LINES_MAX)
                                log.firstElementChild.remove();
                        if (isAtEnd)
                                log.scrollTop = log.scrollHeight;
                }
        };

        signal.addEventListener("abort", () => stop.abort());
        read().catch((error) => tellProblem(told, error));
        return { root, stop: () => stop.abort() };
}

// --- the list ---

export function showContainers(main, { self, may, live, signal }) {
        const table = makeTable(COLUMNS, "Containers");
        const told = element("div", {}, element("p", { class: "empty", text: "Loading…" }));
        const failed = element("div", {});
        const places = element("div", {});
        const open = new Map(); // logs, by id
        const path = (container, verb) => `/v1/containers/${pathOf(container.id)}${verb}`;
        const act = async (container, method, verb) => {
                try {
                        await ask(path(container, verb), { method, ...(method === "POST" ? { body: {} } : {}) });
                        failed.replaceChildren();
                        await look();
                } catch (error) {
                        tellProblem(failed, error);
                }
        };
        const toggle = (container, button) => {
                const logs = open.get(container.id);

                if (logs) {
                        logs.stop();
                        logs.root.remove();
                        open.delete(container.id);
                } else {
                        open.set(container.id, makeLogs(container, signal));
                        places.append(open.get(container.id).root);
                }
                mark(button, "aria-expanded", open.has(container.id));
        };
        const makeRow = (container) => {
                const name = shown(nameOf(container));
                const button = (verb, press, rights, kind) => may(...rights) && element("button", { type: "button", class: kind, "aria-label": `${verb} ${name}`, text: verb,
                        "aria-expanded": verb === "Logs" && "false", on: { click: (event) => press(event.currentTarget) } });

                return element("tr", { role: "row" },
                        element("th", { scope: "row", role: "rowheader" }, element("span", { class: "name", text: name }), element("span", { class: "quiet" })),
                        ...COLUMNS.slice(1, -1).map((column) => cell(column)),
                        cell("Actions", element("div", { class: "actions" },
                                button("Logs", (pressed) => toggle(container, pressed), ["containers"]),
                                button("Stop", () => act(container, "POST", "/stop"), ["containers", "administer"]),
                                button("Restart", () => act(container, "POST", "/restart"), ["containers"]),
                                button("Remove", () => act(container, "DELETE", ""), ["containers", "administer"], "danger"))));
        };
        const updateRow = (row, container) => {
                const [name, agent, status, cpu, memory] = row.children;

                say(name.lastChild, [container.type, container.environment, may("observe") ? container.owner : null].filter(Boolean).map(shown).join(" · "));
                fill(agent, shown(container.agent ?? ""));
                if (status.textContent !== container.status)
                        status.replaceChildren(statusOf(container.status));
                fill(cpu, percent(container.usage));
                fill(memory, megabytes(container.usage));
        };
        let under = null;
        const look = async () => {
                try {
                        const { items } = await list("/v1/containers", signal);

                        told.replaceChildren(...(items.length > 0 ? [] : [element("p", { class: "empty", text: "No container is there." })]));
                        table.root.hidden = items.length === 0;
                        keep(table.body, items, (container) => container.id, makeRow, updateRow);
                        // A removed container has no log any more: lines read before stay.
                        open.forEach((logs, id) => items.some((container) => container.id === id) || logs.stop());
                } catch (error) {
                        tellProblem(told, error);
                }
        };
        const lookOnce = () => under ??= look().finally(() => under = null);

        main.append(element("h1", { tabindex: -1, text: "Containers" }));
        if (!self.serves.containers || !may("containers", "observe", "administer")) {
                main.append(element("p", { class: "empty", text: self.serves.containers ? "This token may not see containers."
                        : "This server has no containers: its version of Berth does not run any yet." }));
                return;
        }
        table.root.hidden = true;
        main.append(told, failed, table.root, places);
        live.addEventListener("container", lookOnce, { signal });
        every(LOOK_MS, signal, lookOnce);
}
