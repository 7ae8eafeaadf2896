// SPDX-License-Identifier: Apache-2.0
// Texts that came from outside, by tables. How they look in a browser: tests/e2e/test_page.py.

import assert from "node:assert/strict";
import test from "node:test";

import * as text from "../../../panel/text.js";

/** One test for each row: what is called with what, and what comes back. */
function table(name, rows, call) {
        for (const [given, wanted] of rows)
                test(`${name}: ${JSON.stringify(given)}`, () => assert.deepEqual(call(given), wanted));
}

table("shown", [
        ["plain", "plain"],
        [7, "7"],
        ["é 漢 😀", "é 漢 😀"],
        ["\x1b[31m", "\\x1b[31m"],
        ["a\r\nb\tc", "a\\x0d\\x0ab\\x09c"],
        ["\x7f\x9b2J", "\\x7f\\x9b2J"],
        ["\u202egnp.exe\u2066", "\\u202egnp.exe\\u2066"],
        ["\u2028\u2029\ufeff\xad", "\\u2028\\u2029\\ufeff\\xad"],
        ["\ud800", "\\ud800"],
        ["\u{e0041}", "\\U000e0041"],
        // Joiners stay between characters beyond ASCII.
        ["👩\u200d💻", "👩\u200d💻"],
        ["می\u200cخواهم", "می\u200cخواهم"],
        ["a\u200db", "a\\u200db"],
        ["\u200d😀", "\\u200d😀"],
], text.shown);

table("shownBlock", [
        ["a\nb\tc", "a\nb\tc"],
        ["a\r\nb", "a\nb"],
        ["over\rwritten", "over\\x0dwritten"],
        ["\x1b]0;title\x07", "\\x1b]0;title\\x07"],
        ["\u202e", "\\u202e"],
], text.shownBlock);

table("shownWord", [
        ["git", "git"],
        ["--name=a,b:c@d/e_%+.-1", "--name=a,b:c@d/e_%+.-1"],
        ["", "''"],
        ["two words", "'two words'"],
        ["it's", "'it\\'s'"],
        ["a\\b", "'a\\\\b'"],
        ["$HOME", "'$HOME'"],
        ["é", "'é'"],
        // What looks like another word has a form of its own.
        ["e\u0301", "'e\\u0301'"],
        ["a\u00a0b", "'a\\xa0b'"],
        ["a\u2800b", "'a\\u2800b'"],
        ["a\u3164b", "'a\\u3164b'"],
        ["\u200d", "'\\u200d'"],
        ["אב", "'\\u05d0\\u05d1'"],
        ["\ue000", "'\\ue000'"],
        ["\u{10ffff}", "'\\U0010ffff'"],
        ["a\nb", "'a\\x0ab'"],
], text.shownWord);

table("shownBytes", [
        [0, "0 B"], [1023, "1023 B"], [1024, "1.0 KB"], [1536, "1.5 KB"], [102_400, "100 KB"], [1024 ** 2, "1.0 MB"], [1024 ** 4, "1.0 TB"],
        [1024 ** 5, "1024 TB"],
], text.shownBytes);

table("shownDuration", [
        [0, "0 ms"], [999, "999 ms"], [1000, "1.0 s"], [9940, "9.9 s"], [59_000, "59 s"], [60_000, "1 min 0 s"], [3_605_000, "60 min 5 s"],
], text.shownDuration);

table("shownAge", [
        ["2026-01-01T00:00:00Z", "just now"],
        ["2025-12-31T23:59:30Z", "30 s ago"],
        ["2025-12-31T23:01:00Z", "59 min ago"],
        ["2025-12-30T01:00:00Z", "47 h ago"],
        ["2025-12-30T00:00:00Z", "2 days ago"],
        ["2026-01-01T02:00:00Z", "in 2 h"],
        ["no time", ""],
], (time) => text.shownAge(time, Date.parse("2026-01-01T00:00:00Z")));

table("shownTime", [["2026-01-02T03:04:05", "2026-01-02 03:04:05"], ["no time", ""]], text.shownTime);

table("readCsv", [
        ["", { rows: [], more: false }],
        ["a,b\n1,2\n", { rows: [["a", "b"], ["1", "2"]], more: false }],
        ["a,b\r\n1,2", { rows: [["a", "b"], ["1", "2"]], more: false }],
        ["a;b;c\n1,5;2;3", { rows: [["a", "b", "c"], ["1,5", "2", "3"]], more: false }],
        ['"x,y",z\n"say ""hi""","two\nlines"', { rows: [["x,y", "z"], ['say "hi"', "two\nlines"]], more: false }],
        ['a,b\n"never ended,1\n2', { rows: [["a", "b"], ["never ended,1\n2"]], more: false }],
        ["a\n\nb\n", { rows: [["a"], ["b"]], more: false }],
        ["a,\n", { rows: [["a", ""]], more: false }],
        ["1\n2\n3\n4\n", { rows: [["1"], ["2"], ["3"]], more: true }],
        ["1\n2\n3\n", { rows: [["1"], ["2"], ["3"]], more: false }],
], (given) => text.readCsv(given, 3));

table("tablesIn", [
        ["no table", []],
        ["<table><tr><th>city</th></tr><tr><td>Oslo &amp; <b>Bergen</b></td></tr></table>", [[["city"], ["Oslo & Bergen"]]]],
        ["<TABLE><TR><TD>a<TD>b<TR><TD>c", [[["a", "b"], ["c"]]]],
        ["<table><tr><td>&lt;b&gt; &#65;&#x42; &none; &#9999999;</td></tr></table>", [[["<b> AB &none; &#9999999;"]]]],
        ["<script><table><tr><td>x</td></tr></table></script>", []],
        ["<style>td</style><table><tr><td><script>alert(1)</script>a</td></tr></table>", [[["a"]]]],
        ["<script>never ended<table><tr><td>x", []],
        ["<td>outside</td><table></table>", []],
        ["<table><tr><td>1</table><table><tr><td>2</table><table><tr><td>3</table>", [[["1"]], [["2"]]]],
], (given) => text.tablesIn(given, 2));

const PNG = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
const png = (width, height) => {
        const bytes = new Uint8Array(24);

        bytes.set(PNG);
        new DataView(bytes.buffer).setUint32(16, width);
        new DataView(bytes.buffer).setUint32(20, height);
        return bytes;
};

table("imageType", [
        [PNG, "image/png"],
        [PNG.slice(0, 7), null],
        [[0xff, 0xd8, 0xff], "image/jpeg"],
        [[..."GIF89a"].map((c) => c.charCodeAt(0)), "image/gif"],
        [[..."RIFF0000WEBP"].map((c) => c.charCodeAt(0)), "image/webp"],
        [[..."RIFF0000WAVE"].map((c) => c.charCodeAt(0)), null],
        [[..."<svg xmlns"].map((c) => c.charCodeAt(0)), null],
        [[], null],
], (bytes) => text.imageType(new Uint8Array(bytes)));

table("isVast", [
        [[10_000, 10_000], false],
        [[10_000, 10_001], true],
        [[0xffffffff, 0xffffffff], true],
], ([width, height]) => text.isVast(png(width, height)));

test("isVast: a part of a larger buffer, and too few bytes", () => {
        const whole = new Uint8Array(40);

        whole.set(png(20_000, 20_000), 16);
        assert.equal(text.isVast(whole.subarray(16)), true);
        assert.equal(text.isVast(png(20_000, 20_000).subarray(0, 23)), false);
});
