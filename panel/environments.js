// SPDX-License-Identifier: Apache-2.0
// Environments, and which agents and swarms use them.
import { get, list } from "./api.js";
import { element, every, keep, mark, say } from "./dom.js";
import { shown, shownAge, shownBytes, shownTime } from "./text.js";
import { cell, makeTable, tellProblem } from "./table.js";

const LOOK_MS = 3000; // an apply is told by no event

const COLUMNS = ["Environment", "Memory", "Agents", "Image", "Workspace", "Applied"];

function imageText(image) {
        if (!image)
                return "this machine's Python";
        if (image.prebuilt)
                return `prebuilt ${image.prebuilt}`;
        const name = [image.registry, image.repository].filter(Boolean).join("/");

        return `${name}${image.tag ? `:${image.tag}` : ""}${image.digest ? `@${image.digest.slice(0, 19)}…` : ""}`;
}

function agentsOf(environment, map) {
        const found = map.environments.find((one) => one.name === environment.name);

        return (found?.dependents ?? []).map(({ address, active }) => {
                const [kind, name] = address.split("/");

                return { key: address, text: `${shown(name)}${kind === "Agent" ? "" : ` (${kind.toLowerCase()})`}`, active };
        });
}

function makeRow(environment) {
        return element("tr", { role: "row" },
                element("th", { scope: "row", role: "rowheader" },
                        element("span", { class: "name", text: shown(environment.name) }), element("span", { class: "quiet" })),
                ...COLUMNS.slice(1).map(cell));
}

function updateRow(row, { environment, agents }) {
        const [name, memory, users, image, workspace, applied] = row.children;

        say(name.lastChild, environment.incomplete ? "a change of it failed half-way" : shown(environment.description ?? ""));
        mark(name.lastChild, "class", environment.incomplete ? "bad" : "quiet");
        say(memory, environment.memoryMB === null ? "–" : `${environment.memoryMB} MB`);
        if (agents.length === 0)
                say(users, "none");
        else if (!users.firstElementChild)
                users.replaceChildren(element("ul", { class: "tags" }));
        keep(users.firstElementChild ?? element("ul"), agents, (agent) => agent.key, () => element("li"), (node, agent) => {
                say(node, agent.active ? agent.text : `${agent.text}, out of service`);
                mark(node, "class", agent.active ? null : "off");
        });
        say(image, shown(imageText(environment.image)));
        say(workspace, environment.workspaceStorageMB === null ? "–" : shownBytes(environment.workspaceStorageMB * 1024 * 1024));
        say(applied, shownAge(environment.appliedAt));
        mark(applied, "title", shownTime(environment.appliedAt));
}

export function showEnvironments(main, { signal }) {
        const table = makeTable(COLUMNS, "Environments");
        const told = element("div", {}, element("p", { class: "empty", text: "Loading…" }));
        const look = async () => {
                try {
                        const [{ items }, map] = await Promise.all([list("/v1/environments", signal), get("/v1/map", signal)]);

                        told.replaceChildren(...(items.length > 0 ? [] : [element("p", { class: "empty", text: "No environment was applied yet." })]));
                        table.root.hidden = items.length === 0;
                        keep(table.body, items.map((environment) => ({ environment, agents: agentsOf(environment, map) })),
                                ({ environment }) => environment.name, ({ environment }) => makeRow(environment), updateRow);
                } catch (error) {
                        tellProblem(told, error);
                }
        };

        table.root.hidden = true;
        main.append(element("h1", { tabindex: -1, text: "Environments" }), told, table.root);
        every(LOOK_MS, signal, look);
}
