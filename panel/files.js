// SPDX-License-Identifier: Apache-2.0
// The files of a session's workspace: a link for each, and what is behind the one that is chosen.
import { list, pathOf } from "./api.js";
import { element, every, keep, mark, say } from "./dom.js";
import { shown, shownAge, shownBytes, shownTime } from "./text.js";
import { downloadLink, tellProblem } from "./table.js";
import { makePreview } from "./preview.js";

const LOOK_MS = 10_000; // files may be put from outside, which no event tells
const SHOWN = 500;

/** Berth's own, as pictures of displays, come last. */
const order = (file) => file.path.startsWith(".berth/") ? 1 : 0;

function makeItem(id, file) {
        const address = `#/sessions/${pathOf(id)}/files/${pathOf(file.path)}`;

        return element("li", {}, element("a", { href: address, text: shown(file.path) }), element("span", { class: "quiet" }));
}

export function showFiles(section, previewSection, { id, signal }) {
        const told = element("div", {}, element("p", { class: "empty", text: "Loading…" }));
        const items = element("ul", { class: "paths" });
        const more = element("button", { type: "button", text: "Show more files", hidden: true });
        const all = downloadLink("Download all", id, undefined, told);
        const preview = makePreview(previewSection, id, signal);
        let files = [], most = SHOWN, chosen = null, under = null;
        const show = () => {
                more.hidden = files.length <= most;
                all.hidden = files.length === 0;
                keep(items, files.slice(0, most), (file) => file.path, (file) => makeItem(id, file), (item, file) => {
                        mark(item.firstElementChild, "aria-current", file.path === chosen && "true");
                        say(item.lastElementChild, `${shownBytes(file.bytes)} · ${shownAge(file.writtenAt)}`);
                        mark(item.lastElementChild, "title", shownTime(file.writtenAt));
                });
        };
        const look = async () => {
                try {
                        const found = await list(`/v1/workspaces/${pathOf(id)}/files`, signal);

                        files = found.items.sort((one, two) => order(one) - order(two));
                        told.replaceChildren(...(files.length === 0 ? [element("p", { class: "empty", text: "No files yet." })]
                                : found.more ? [element("p", { class: "quiet", text: `The first ${files.length} of its files.` })] : []));
                        show();
                        if (chosen !== null)
                                preview.show(chosen, files.find((file) => file.path === chosen)?.etag);
                } catch (error) {
                        tellProblem(told, error);
                }
        };
        // One at a time: a call meanwhile gets the next one.
        const lookOnce = async () => {
                if (under)
                        return under.then(lookOnce);
                under = look().finally(() => under = null);
                return under;
        };

        more.addEventListener("click", () => {
                most += SHOWN;
                show();
        });
        all.hidden = true;
        section.firstElementChild.after(all);
        section.append(told, items, more);
        every(LOOK_MS, signal, lookOnce);
        return {
                look: lookOnce,
                choose(path) {
                        chosen = path;
                        show();
                        preview.show(path, files.find((file) => file.path === path)?.etag);
                },
        };
}
