// SPDX-License-Identifier: Apache-2.0
// The list of sessions: those that live, newest first, as they come, change and go; and, where somebody asks for them, those that have
// ended, whose files stay.
import { list } from "./api.js";
import { element, every, keep, mark, say } from "./dom.js";
import { shown, shownAge, shownTime } from "./text.js";
import { cell, fill, makeTable, statusOf, tellProblem } from "./table.js";

const SHOWN = 200; // rows at once
const AGES_MS = 10_000;
const COLUMNS = ["Session", "Status", "Environment", "Agent", "Owner", "Conversation", "Active"];
const ENDED_COLUMNS = ["Session", "Environment", "Agent", "Owner", "Begun"];

/** Ids of sessions that have ended, as far as this tab has heard of it: asking for them would be asking for nothing. */
export const ended = new Set();

const byAge = (one, two) => two.createdAt.localeCompare(one.createdAt) || two.id.localeCompare(one.id);

function sessionLink(id) {
        return element("th", { scope: "row", role: "rowheader" },
                element("a", { class: "id", href: `#/sessions/${encodeURIComponent(id)}`, text: shown(id) }));
}

function updateRow(row, session) {
        const [, status, environment, agent, owner, conversation, active] = row.children;

        if (status.dataset.status !== session.status) {
                status.dataset.status = session.status;
                status.replaceChildren(statusOf(session.status));
        }
        say(environment, shown(session.environment));
        fill(agent, shown(session.agent ?? ""));
        say(owner, shown(session.owner));
        fill(conversation, shown(session.conversation ?? ""));
        say(active, shownAge(session.lastActiveAt));
        mark(active, "title", shownTime(session.lastActiveAt));
}

function makeEnded(living, signal) {
        const table = makeTable(ENDED_COLUMNS, "Ended sessions");
        const told = element("div", {});
        const load = async () => {
                try {
                        const { items, more } = await list("/v1/workspaces", signal);
                        const left = items.filter((one) => !living.has(one.id)).sort(byAge);

                        left.forEach((one) => ended.add(one.id));
                        told.replaceChildren(...(left.length === 0 ? [element("p", { class: "empty", text: "None." })]
                                : more || left.length > SHOWN ? [element("p", { class: "quiet", text: `The newest ${SHOWN} of them.` })] : []));
                        table.root.hidden = left.length === 0;
                        keep(table.body, left.slice(0, SHOWN), (one) => one.id,
                                (one) => element("tr", { role: "row" }, sessionLink(one.id), ...ENDED_COLUMNS.slice(1).map(cell)),
                                (row, one) => {
                                        say(row.children[1], shown(one.environment));
                                        fill(row.children[2], shown(one.agent ?? ""));
                                        say(row.children[3], shown(one.owner));
                                        say(row.children[4], shownTime(one.createdAt));
                                });
                } catch (error) {
                        tellProblem(told, error);
                }
        };
        const root = element("details", { class: "ended", on: { toggle: () => root.open && load() } },
                element("summary", { text: "Ended sessions, whose files stay" }), told, table.root);

        table.root.hidden = true;
        return { root, look: () => root.open && load() };
}

export function showSessions(main, { self, may, live, signal }) {
        const table = makeTable(COLUMNS, "Sessions");
        const told = element("div", {}, element("p", { class: "empty", text: "Loading…" }));
        const more = element("button", { type: "button", text: "Show more", hidden: true });
        const sessions = new Map();
        const past = makeEnded(sessions, signal);
        let most = SHOWN, partial = false;
        const show = () => {
                const all = [...sessions.values()].sort(byAge);

                told.replaceChildren(...(all.length === 0
                        ? [element("p", { class: "empty", text: self.actsFor === "users" && self.owner ? "This owner has no session." : "No session lives." })]
                        : partial ? [element("p", { class: "quiet", text: "There are more sessions than are shown here." })] : []));
                table.root.hidden = all.length === 0;
                more.hidden = all.length <= most;
                keep(table.body, all.slice(0, most), (session) => session.id,
                        (session) => element("tr", { role: "row" }, sessionLink(session.id), ...COLUMNS.slice(1).map(cell)), updateRow);
        };
        const load = async () => {
                try {
                        const found = await list("/v1/sessions", signal);

                        sessions.clear();
                        found.items.forEach((session) => sessions.set(session.id, session));
                        partial = found.more;
                        show();
                        past.look();
                } catch (error) {
                        tellProblem(told, error);
                }
        };

        main.append(element("h1", { tabindex: -1, text: "Sessions" }));
        if (!self.serves.sessions || !may("execute", "observe")) {
                main.append(element("p", { class: "empty", text: self.serves.sessions ? "This token may not see sessions."
                        : "This server has no sessions at the moment: nothing was applied yet, or code cannot run here. Its log says which." }));
                return;
        }
        table.root.hidden = true;
        more.addEventListener("click", () => {
                most += SHOWN;
                show();
        });
        main.append(told, table.root, more, past.root);
        live.addEventListener("again", load, { signal });
        live.addEventListener("session", ({ detail: session }) => {
                if (session.status !== "ended") {
                        sessions.set(session.id, session);
                        show();
                        return;
                }
                ended.add(session.id);
                sessions.delete(session.id);
                show();
                past.look();
        }, { signal });
        load();
        every(AGES_MS, signal, () => sessions.size > 0 && show());
}
