// SPDX-License-Identifier: Apache-2.0
// One session: what it is, what ran in it, and its files. Its content is its owner's: others see that it is there.
import { get, pathOf, Problem } from "./api.js";
import { element, every, mark, say } from "./dom.js";
import { shown, shownAge, shownTime } from "./text.js";
import { statusOf, tellProblem } from "./table.js";
import { showFiles } from "./files.js";
import { showHistory } from "./history.js";
import { ended } from "./sessions.js";

const AGES_MS = 10_000;

/** The session; of one that has ended, what its workspace tells of it. */
async function find(id, signal) {
        if (!ended.has(id)) {
                try {
                        return await get(`/v1/sessions/${pathOf(id)}`, signal);
                } catch (error) {
                        if (!(error instanceof Problem) || error.status !== 404)
                                throw error;
                }
        }
        return { ...await get(`/v1/workspaces/${pathOf(id)}`, signal), status: "ended" };
}

const FACTS = [
        ["Environment", (session) => session.environment],
        ["Agent", (session) => session.agent],
        ["Owner", (session) => session.owner],
        ["Conversation", (session) => session.conversation],
        ["Labels", (session) => Object.entries(session.labels ?? {}).map(([name, value]) => `${name}=${value}`).join(", ")],
        ["Begun", (session) => shownAge(session.createdAt), (session) => shownTime(session.createdAt)],
        ["Active", (session) => session.lastActiveAt && shownAge(session.lastActiveAt), (session) => shownTime(session.lastActiveAt)],
        ["Ends", (session) => session.expiresAt && shownAge(session.expiresAt), (session) => shownTime(session.expiresAt)],
];

function makeFacts() {
        const rows = FACTS.map(([name, read, hint]) => {
                const value = element("dd");
                const row = element("div", {}, element("dt", { text: name }), value);

                return (session) => {
                        const text = read(session);

                        row.hidden = !text;
                        say(value, shown(text ?? ""));
                        mark(value, "title", hint?.(session));
                        return row;
                };
        });
        const root = element("dl", { class: "facts" });
        const status = element("dd");
        const first = element("div", {}, element("dt", { text: "Status" }), status);
        const update = (session) => {
                if (status.textContent !== session.status)
                        status.replaceChildren(statusOf(session.status));
                const all = [first, ...rows.map((row) => row(session))];

                if (!root.firstElementChild)
                        root.append(...all);
        };

        return { root, update };
}

function pathIn(parts) {
        return parts[2] === "files" && parts.slice(3).join("/") || null;
}

export function showSession(main, { self, may, live, parts, signal }) {
        const id = parts[1];
        const told = element("div", {}, element("p", { class: "empty", text: "Loading…" }));
        const facts = makeFacts();
        const contents = element("div", { class: "contents" });
        let session = null, files = null, path = pathIn(parts);
        const update = (now) => {
                session = { ...session, ...now };
                facts.update(session);
        };
        const open = () => {
                const history = element("section", { class: "history", "aria-labelledby": "history" },
                        element("h2", { id: "history", text: "History" }));
                const right = element("section", { class: "files", "aria-labelledby": "files" },
                        element("h2", { id: "files", text: "Files" }));
                const preview = element("section", { class: "preview", "aria-labelledby": "preview" },
                        element("h2", { id: "preview", text: "Preview" }));

                contents.append(history, element("div", { class: "side" }, right, preview));
                if (!may("execute") || self.owner !== session.owner) {
                        const why = self.actsFor === "users" && may("execute") ? "Name its owner to see what it holds." : "Only its owner sees its content.";

                        contents.replaceChildren(element("p", { class: "empty", text: why }));
                        return;
                }
                files = showFiles(right, preview, { id, signal });
                files.choose(path);
                showHistory(history, { id, live, signal, changed: files.look });
        };
        const load = async () => {
                try {
                        const found = await find(id, signal);

                        told.replaceChildren();
                        update(found);
                        if (!contents.firstElementChild)
                                open();
                } catch (error) {
                        if (error.status === 404)
                                told.replaceChildren(element("p", { class: "empty", text: "There is no such session, or it is not yours to see." }));
                        else
                                tellProblem(told, error);
                }
        };

        main.append(element("h1", { tabindex: -1, class: "id", text: shown(id) }), told, facts.root, contents);
        live.addEventListener("again", load, { signal });
        live.addEventListener("session", ({ detail }) => {
                if (detail.id === id && session)
                        update(detail);
        }, { signal });
        load();
        every(AGES_MS, signal, () => session && facts.update(session));
        return (now) => {
                path = pathIn(now);
                files?.choose(path);
        };
}
