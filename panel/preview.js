// SPDX-License-Identifier: Apache-2.0
// One file, as far as it can be shown without letting it do anything: pictures by their first bytes, not their names; CSV as a table;
// all else, HTML and SVG too, as text.
import { ask, pathOf, Problem } from "./api.js";
import { element, scrolling } from "./dom.js";
import { imageType, isVast, readCsv, shown, shownBlock, shownBytes } from "./text.js";
import { downloadLink, tellProblem } from "./table.js";

const TEXT_MAX = 256 << 10, IMAGE_MAX = 32 << 20; // bytes
const ROWS_MAX = 500, COLUMNS_MAX = 60, CELL_MAX = 1000, HEX_MAX = 512;

/** The first bytes of an answer, at most `most(what came first)`; the rest is not fetched. */
async function readHead(response, most) {
        const reader = response.body.getReader();
        const pieces = [];
        let size = 0, limit = null;

        for (;;) {
                const { value, done } = await reader.read();

                if (done)
                        break;
                pieces.push(value);
                size += value.length;
                limit ??= most(pieces[0]);
                if (size >= limit) {
                        await reader.cancel();
                        break;
                }
        }
        return new Uint8Array(await new Blob(pieces).slice(0, limit ?? 0).arrayBuffer());
}

/** Rows of texts as a table, the first one its heads. */
export function tableOf(rows, label) {
        const cut = (text) => shown(text.length > CELL_MAX ? `${text.slice(0, CELL_MAX)}…` : text);
        const [head = [], ...body] = rows.slice(0, ROWS_MAX).map((row) => row.slice(0, COLUMNS_MAX).map(cut));
        // Columns of nothing but numbers stand by their last digit.
        const kinds = head.map((_, at) => body.length > 0 && body.every((row) => /^\s*[-+]?[\d.,]*\d([eE][-+]?\d+)?\s*%?$/.test(row[at] ?? "")) ? "figure" : null);
        const row = (name, texts, more) => element("tr", {}, texts.map((text, at) => element(name, { ...more, class: kinds[at], text })));

        return scrolling(element("div", { class: "scroll", role: "group", "aria-label": label }, element("table", { class: "data" },
                element("thead", {}, row("th", head, { scope: "col" })), element("tbody", {}, body.map((texts) => row("td", texts))))));
}

function csvOf(text, path, isWhole) {
        const { rows, more } = readCsv(text, ROWS_MAX);
        const widest = Math.max(0, ...rows.map((row) => row.length));
        const notes = [];

        // The last row of a part of a file is a part of a row.
        if (!isWhole && !more)
                rows.pop();
        if (more || !isWhole)
                notes.push(`the first ${rows.length} rows`);
        if (widest > COLUMNS_MAX)
                notes.push(`the first ${COLUMNS_MAX} of ${widest} columns`);
        return { node: tableOf(rows, `Rows of ${shown(path)}`), note: notes.join(", ") };
}

function hexOf(bytes) {
        const lines = [];

        for (let at = 0; at < Math.min(bytes.length, HEX_MAX); at += 16) {
                const line = [...bytes.slice(at, at + 16)];
                const hex = line.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
                const letters = line.map((byte) => byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : ".").join("");

                lines.push(`${at.toString(16).padStart(6, "0")}  ${hex.padEnd(47)}  ${letters}`);
        }
        return lines.join("\n");
}

/** An image of bytes that the page has: no address of the server's, and none of the sandbox's. */
export function imageOf(bytes, type, alt, signal) {
        if (isVast(bytes))
                return element("p", { class: "empty", text: "The picture is damaged, or too large to be drawn." });
        const address = URL.createObjectURL(new Blob([bytes], { type }));
        const image = element("img", { src: address, alt });
        const forget = () => URL.revokeObjectURL(address);

        image.addEventListener("load", forget);
        image.addEventListener("error", () => {
                forget();
                image.replaceWith(element("p", { class: "empty", text: "The picture is damaged, or too large to be drawn." }));
        });
        signal.addEventListener("abort", forget);
        return image;
}

/** What of the file is shown: {node, note}. */
function contentOf(bytes, size, path, signal) {
        const type = imageType(bytes);
        const isWhole = bytes.length >= size;

        if (size === 0)
                return { node: element("p", { class: "empty", text: "The file is empty." }) };
        if (type && isWhole)
                return { node: imageOf(bytes, type, shown(path), signal) };
        if (type || bytes.subarray(0, 8192).includes(0))
                return { node: scrolling(element("pre", { role: "group", "aria-label": "Bytes", text: hexOf(bytes) })), note: type ? "too large to be shown here" : "no text: its first bytes" };
        const text = new TextDecoder().decode(bytes);

        if (/\.(csv|tsv)$/i.test(path))
                return csvOf(text, path, isWhole);
        return { node: scrolling(element("pre", { role: "group", "aria-label": "Text", text: shownBlock(text) })), note: isWhole ? "" : `the first ${shownBytes(bytes.length)}` };
}

export function makePreview(section, id, signal) {
        const body = element("div", {}, element("p", { class: "empty", text: "Choose a file to see it here." }));
        let shownNow = "", stop = null;

        section.append(body);
        signal.addEventListener("abort", () => stop?.abort());
        const load = async (path, mine) => {
                const told = element("div", {});

                try {
                        const response = await ask(`/v1/workspaces/${pathOf(id)}/files/${pathOf(path)}`, { signal: mine });
                        const size = Number(response.headers.get("Content-Length"));
                        const bytes = await readHead(response, (first) => imageType(first) ? IMAGE_MAX : TEXT_MAX);
                        const { node, note } = contentOf(bytes, size, path, mine);

                        if (mine.aborted)
                                return;
                        body.replaceChildren(element("div", { class: "about" },
                                element("p", {}, element("span", { class: "path", text: shown(path) }),
                                        element("span", { class: "quiet", text: [shownBytes(size), note].filter(Boolean).join(" · ") })),
                                downloadLink("Download", id, path, told)), told, node);
                } catch (error) {
                        if (mine.aborted)
                                return;
                        if (error instanceof Problem && error.status === 404)
                                body.replaceChildren(element("p", { class: "empty", text: `There is no file ${shown(path)} any more.` }));
                        else if (error instanceof Problem)
                                tellProblem(body, error);
                        else
                                body.replaceChildren(element("p", { role: "alert", class: "alert", text: "The file broke off as it was read." }));
                }
        };

        return {
                /** Where this version of the file is shown already, nothing happens. */
                show(path, etag = "") {
                        const key = path === null ? "" : `${path}\n${etag}`;

                        if (key === shownNow || (path !== null && etag === "" && shownNow.startsWith(`${path}\n`)))
                                return;
                        stop?.abort();
                        if (path === null) {
                                body.replaceChildren(element("p", { class: "empty", text: "Choose a file to see it here." }));
                        } else {
                                if (!shownNow.startsWith(`${path}\n`))
                                        body.replaceChildren(element("p", { class: "empty", text: "Loading…" }));
                                stop = new AbortController();
                                load(path, stop.signal);
                        }
                        shownNow = key;
                },
        };
}
