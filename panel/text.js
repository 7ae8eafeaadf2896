// SPDX-License-Identifier: Apache-2.0
// Texts that came from outside, and how they are shown. Pure.

const PIXELS_MAX = 100e6;

// Control characters drive terminals, and characters of these categories reorder, hide or break what a person reads.
const HARMFUL = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

function escaped(character) {
        const code = character.codePointAt(0);
        const hex = (digits) => code.toString(16).padStart(digits, "0");

        return code <= 0xff ? `\\x${hex(2)}` : code <= 0xffff ? `\\u${hex(4)}` : `\\U${hex(8)}`;
}

/** Joiners between characters beyond ASCII stay: scripts and emoji need them there. */
function safe(character, at, text) {
        const joins = character === "\u200c" || character === "\u200d";

        return joins && at > 0 && text.charCodeAt(at - 1) > 0x7f ? character : escaped(character);
}

/** For one line: each harmful character by its number, line breaks too. */
export function shown(text) {
        return String(text).replace(HARMFUL, safe);
}

/** For a block: lines and tabs stay. */
export function shownBlock(text) {
        return String(text)
                .replace(/\r\n/g, "\n")
                .replace(HARMFUL, (character, at, all) => character === "\n" || character === "\t" ? character : safe(character, at, all));
}

export function shownBytes(count) {
        const units = ["B", "KB", "MB", "GB", "TB"];
        let unit = 0;

        while (count >= 1024 && unit < units.length - 1) {
                count /= 1024;
                unit++;
        }
        return `${unit === 0 || count >= 100 ? Math.round(count) : count.toFixed(1)} ${units[unit]}`;
}

export function shownDuration(milliseconds) {
        if (milliseconds < 1000)
                return `${Math.round(milliseconds)} ms`;
        if (milliseconds < 60_000)
                return `${(milliseconds / 1000).toFixed(milliseconds < 10_000 ? 1 : 0)} s`;
        return `${Math.floor(milliseconds / 60_000)} min ${Math.round(milliseconds % 60_000 / 1000)} s`;
}

/** "3 min ago", "in 2 h". */
export function shownAge(time, now = Date.now()) {
        const seconds = Math.round((now - Date.parse(time)) / 1000);
        const size = Math.abs(seconds);
        const text = size < 60 ? `${size} s`
                : size < 3600 ? `${Math.floor(size / 60)} min`
                : size < 48 * 3600 ? `${Math.floor(size / 3600)} h`
                : `${Math.floor(size / 86_400)} days`;

        if (Number.isNaN(seconds))
                return "";
        return size < 5 ? "just now" : seconds < 0 ? `in ${text}` : `${text} ago`;
}

export function shownTime(time) {
        const date = new Date(time);
        const two = (number) => String(number).padStart(2, "0");

        if (Number.isNaN(date.getTime()))
                return "";
        return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} `
                + `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

// What nobody sees, or sees as something else, or elsewhere: besides those, blanks other than the space, fillers, what fonts have no picture of, and
// letters that run from right to left (the ranges that Unicode keeps for them), since they take the signs and words around them along.
const SEEN_OTHERWISE = new RegExp("(?! )[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}\\p{Zs}\\p{Cs}\\p{Cn}\\p{Co}\\p{Default_Ignorable_Code_Point}\\u2800"
        + "\\u0590-\\u08ff\\ufb1d-\\ufdff\\ufe70-\\ufeff\\u{10800}-\\u{10fff}\\u{1e800}-\\u{1efff}]", "gu");

/**
 * A word of a command, on which a person decides: two that differ do not look the same. Beyond
 * letters, digits and a few signs it stands in quotes, with a backslash before a quote or a
 * backslash. A word that could be written in another way (that is not NFC) has all beyond ASCII by
 * its number.
 */
export function shownWord(word) {
        const text = String(word);
        const harmful = text === text.normalize("NFC") ? SEEN_OTHERWISE : /[^\x20-\x7e]/gu;

        return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replace(/['\\]/g, "\\$&").replace(harmful, escaped)}'`;
}

/** What separates the values of the first line: the one of these that it has most of, outside of quotes. */
function separatorOf(text) {
        const line = text.slice(0, 65_536).replace(/"[^"]*"/g, "").split("\n", 1)[0];
        const counts = [",", ";", "\t", "|"].map((separator) => [line.split(separator).length, separator]);

        return counts.reduce((best, next) => next[0] > best[0] ? next : best)[1];
}

/**
 * The rows of a CSV (RFC 4180, and what else is called so), at most `most`; `more`: there are
 * others.
 */
export function readCsv(text, most) {
        const separator = separatorOf(text);
        const rows = [];
        let row = [], field = "", quoted = false, at = 0;
        const endField = () => {
                row.push(field);
                field = "";
        };
        const endRow = () => {
                endField();
                if (row.length > 1 || row[0] !== "")
                        rows.push(row);
                row = [];
        };

        for (; at < text.length && rows.length < most; at++) {
                const character = text[at];

                if (quoted) {
                        if (character !== '"')
                                field += character;
                        else if (text[at + 1] === '"')
                                field += text[++at];
                        else
                                quoted = false;
                } else if (character === '"' && field === "") {
                        quoted = true;
                } else if (character === separator) {
                        endField();
                } else if (character === "\n") {
                        endRow();
                } else if (character !== "\r" || text[at + 1] !== "\n") {
                        field += character;
                }
        }
        if (rows.length < most && (field !== "" || row.length > 0))
                endRow();
        return { rows, more: at < text.length };
}

const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: " " };

function withoutPrograms(html) {
        const low = html.toLowerCase();
        let text = "", at = 0;

        for (const begin of low.matchAll(/<(script|style)\b/g)) {
                if (begin.index < at)
                        continue;
                text += html.slice(at, begin.index);
                at = low.indexOf(`</${begin[1]}`, begin.index);
                if (at < 0)
                        return text;
        }
        return text + html.slice(at);
}

function textOfMarkup(html) {
        return html.replace(/<[^<>]*>/g, "").replace(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|(\w+));/gi, (whole, decimal, hex, name) => {
                const code = decimal ? Number(decimal) : hex ? parseInt(hex, 16) : null;

                return code === null ? ENTITIES[name] ?? whole : code <= 0x10ffff ? String.fromCodePoint(code) : whole;
        }).replace(/\s+/g, " ").trim();
}

/**
 * The tables in a text of HTML, at most `most`, as rows of texts. No parser of the browser's sees it, which would look at what its
 * elements are to do: tags of cells are found, and the others dropped.
 */
export function tablesIn(html, most) {
        const tables = [];
        let cell = null, row = null;
        const end = (at) => {
                if (cell !== null)
                        row.push(textOfMarkup(html.slice(cell, at)));
                cell = null;
        };

        html = withoutPrograms(html);
        for (const tag of html.matchAll(/<(\/?)(table|tr|td|th)\b[^<>]*>/gi)) {
                const name = tag[2].toLowerCase();

                end(tag.index);
                if (name === "table") {
                        if (!tag[1] && tables.length === most)
                                break;
                        if (!tag[1])
                                tables.push([]);
                        row = null;
                } else if (name === "tr") {
                        row = null;
                        if (!tag[1] && tables.length > 0)
                                tables.at(-1).push(row = []);
                } else if (!tag[1] && row) {
                        cell = tag.index + tag[0].length;
                }
        }
        end(html.length);
        return tables.filter((rows) => rows.length > 0);
}

/** Whether it is a PNG of more pixels than a browser should be asked to draw: a file of some kilobytes can have them. */
export function isVast(bytes) {
        const words = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

        return imageType(bytes) === "image/png" && bytes.length >= 24 && words.getUint32(16) * words.getUint32(20) > PIXELS_MAX;
}

/** What an image's first bytes say it is: those that a browser draws, and that hold nothing that could run. Else null. */
export function imageType(bytes) {
        const begins = (at, ...wanted) => wanted.every((byte, index) => bytes[at + index] === byte);

        if (begins(0, 0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a))
                return "image/png";
        if (begins(0, 0xff, 0xd8, 0xff))
                return "image/jpeg";
        if (begins(0, 0x47, 0x49, 0x46, 0x38))
                return "image/gif";
        if (begins(0, 0x52, 0x49, 0x46, 0x46) && begins(8, 0x57, 0x45, 0x42, 0x50))
                return "image/webp";
        return null;
}
