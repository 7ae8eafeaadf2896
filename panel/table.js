// SPDX-License-Identifier: Apache-2.0
// What views have in common. Roles of tables are written out, since on a narrow page their rows are laid out as cards.
import { download } from "./api.js";
import { element, say } from "./dom.js";
import { shown } from "./text.js";

export function makeTable(columns, name) {
        const body = element("tbody", { role: "rowgroup" });
        const root = element("table", { role: "table", "aria-label": name, class: "list" },
                element("thead", { role: "rowgroup" }, element("tr", { role: "row" },
                        columns.map((column) => element("th", { scope: "col", role: "columnheader", text: column })))),
                body);

        return { root, body };
}

/** A cell, which says on a narrow page what it is. */
export function cell(column, ...children) {
        return element("td", { role: "cell", "data-label": column }, ...children.filter((child) => child instanceof Node));
}

/** What a cell says; that there is nothing is left out where rows are cards. */
export function fill(node, text) {
        say(node, text || "–");
        node.classList.toggle("none", !text);
}

/** Why something is not shown. That who asked went away is no reason. */
export function tellProblem(told, error) {
        if (error.name === "AbortError")
                return;
        if (!("status" in error))
                throw error;
        told.replaceChildren(element("p", { role: "alert", class: "alert" }, shown(error.message), error.remedy ? ` ${shown(error.remedy)}.` : ""));
}

/** What became of something, as a word with a mark. */
export function statusOf(status) {
        return element("span", { class: "status", "data-status": status, text: shown(status) });
}

/** A link that downloads: `path` as in download(). */
export function downloadLink(text, id, path, told) {
        const press = async (event) => {
                event.preventDefault();
                try {
                        await download(id, path);
                        told.replaceChildren();
                } catch (error) {
                        tellProblem(told, error);
                }
        };

        return element("a", { class: "action", href: location.hash || "#", text, on: { click: press } });
}
