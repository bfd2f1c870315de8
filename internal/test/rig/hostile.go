package rig

import (
	"slices"
	"strings"
	"unicode"
)

// HostileTexts returns about 200 texts that break pages which do not escape them. All are valid UTF-8
// without NUL; some hold other control characters.
func HostileTexts() []string {
	texts := []string{
		`<script>alert(1)</script>`, `</script><script>alert(1)</script>`, `"><script>alert(1)</script>`, `'><script>alert(1)</script>`,
		`<img src=x onerror=alert(1)>`, `"><img src=x onerror=alert(1)>`, `'><img src=x onerror='alert(1)'>`, `<svg onload=alert(1)>`,
		`<svg><script>alert(1)</script></svg>`, `<svg/onload=alert(1)//`, `<math><mtext></mtext><script>alert(1)</script></math>`,
		`</title><script>alert(1)</script>`, `</textarea><script>alert(1)</script>`, `</style><script>alert(1)</script>`,
		`</bdi></td></tr></table><script>alert(1)</script>`, `</pre><script>alert(1)</script>`, `</code></pre><h1>x</h1>`, `</main><footer>x</footer>`,
		`--><script>alert(1)</script>`, `<!--`, `-->`, `<![CDATA[`, `]]>`, `<?xml version="1.0"?>`, `<!doctype html>`, `<base href=//evil.example>`,
		`<meta http-equiv=refresh content="0;url=//evil.example">`, `<link rel=stylesheet href=//evil.example>`, `<style>*{display:none}</style>`,
		`<iframe src=javascript:alert(1)>`, `<iframe srcdoc="<script>alert(1)</script>">`, `<object data=javascript:alert(1)>`, `<embed src=javascript:alert(1)>`,
		`<form action=//evil.example><button>x`, `<input autofocus onfocus=alert(1)>`, `<button formaction=//evil.example>`, `<details open ontoggle=alert(1)>`,
		`<template><script>alert(1)</script></template>`, `<noscript><p title="</noscript><img src=x onerror=alert(1)>">`, `<a href=javascript:alert(1)>x</a>`,
		`<dialog open>x</dialog>`, `<plaintext>`, `<xmp><script>alert(1)</script></xmp>`, `<listing>`, `<frameset onload=alert(1)>`, `<body onload=alert(1)>`,
		`<video><source onerror=alert(1)>`, `<audio src=x onerror=alert(1)>`, `<marquee onstart=alert(1)>`, `<isindex action=javascript:alert(1)>`,
		`javascript:alert(1)`, `JaVaScRiPt:alert(1)`, "java\tscript:alert(1)", ` javascript:alert(1)`, `data:text/html,<script>alert(1)</script>`,
		`vbscript:msgbox(1)`, `//evil.example/`, `https://evil.example/`, `\\evil.example\x`, `/\evil.example`, `//evil.example/%2f..`,
		`" onmouseover="alert(1)`, `' onmouseover='alert(1)`, "` onmouseover=alert(1) `", `x onerror=alert(1)`, `"autofocus onfocus=alert(1) x="`, `" style="position:fixed`,
		`{{7*7}}`, `{{.Token}}`, `{{template "form"}}`, `${7*7}`, `<%= 7*7 %>`, `#{7*7}`, `[[7*7]]`, `{% raw %}`, `__proto__`, `constructor`,
		`'; DROP TABLE event; --`, `" OR 1=1 --`, `%`, `_`, `\`, `%00`, `%2e%2e%2f`, `..%2f..%2f`, `../../etc/passwd`, `..\..\x`, `.`, `..`, `...`, `/`, `//`, `a/b`, `?`, `#`, `&`, `;`, `,`, `+`, `=`,
		`a?b#c&d=e;f`, `&lt;script&gt;`, `&#60;script&#62;`, `&amp;lt;`, `&#x0;`, `&nbsp;`, `&`, `&#`, `&notit;`,
		`$(id)`, "`id`", `;id`, `|id`, `'$(id)'`, `"$(id)"`, `\'; id #`, `!!`, `~root`, `*`, `-rf`, `--help`, `@/etc/passwd`, `file:///etc/passwd`,
		`=1+1`, `+1+1`, `-1+1`, `@SUM(1)`, `=cmd|' /C calc'!A0`, `=HYPERLINK("//evil.example")`, "\t=1+1",
		`null`, `undefined`, `NaN`, `true`, `0`, `-0`, `1e999`, `9007199254740993`, `[object Object]`, `""`, `''`, `{}`, `[]`, `{"a":1}`, `[1,2`, `"\u003cscript\u003e"`,
		`"\ud800"`, `{"<script>alert(1)</script>":"<img src=x onerror=alert(1)>"}`, `{"a":"</bdi><script>alert(1)</script>"}`, `a=<script>alert(1)</script>&b=%3Cscript%3E`,
		"line\nfeed", "carriage\rreturn", "tab\ttab", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x08\x08\x08", "\x7f", "\x01\x02\x03", "a\r\nSet-Cookie: x=1", "a\r\n\r\n<script>alert(1)</script>",
		"\u202egnp.exe", "\u2066\u2067x\u2069", "\u200b", "a\u200db", "\ufeff", "\u00ad", "\u2028\u2029", "\u0085", "\u3164", "\u115f", "\U000e0041", "\ufe0f", "\u061c", "\u180e",
		"e" + strings.Repeat("\u0301", 50), strings.Repeat("\u0e49", 30), "ﷺ﷽", "𝕳𝖊𝖑𝖑𝖔", "👨‍👩‍👧‍👦", "日本語のイベント", "עברית", "العربية", "\ufffd", "\ufffe", "\U0010ffff",
		"＜script＞alert(1)＜/script＞", "\u02bascript", "K", "ſcript", "<scr\u0000ipt>"[:4], "<ſcript>alert(1)</ſcript>",
		strings.Repeat("x", 200), strings.Repeat("<", 60), strings.Repeat(`"`, 60), strings.Repeat("ü", 100), strings.Repeat("a ", 60), strings.Repeat("&", 60),
		" ", "  leading", "trailing  ", "\u00a0", "\u3000", "evt_1", "<b>bold</b>", "<i>", "</i>", "<p", "<", ">", `<a"b'c>`, "<\u200bscript>", "<script\n>alert(1)</script\n>",
	}
	for i := range texts {
		texts[i] = strings.ToValidUTF8(strings.ReplaceAll(texts[i], "\x00", ""), "")
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// HiddenTexts returns texts that together hold every control and format character and separator of lines
// and paragraphs but NUL: no output may show one of them as it is.
func HiddenTexts() []string {
	const most = 24
	var all []rune
	for c := rune(1); c <= unicode.MaxRune; c++ {
		if unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			all = append(all, c)
		}
	}
	var texts []string
	for part := range slices.Chunk(all, most) {
		texts = append(texts, "x"+string(part)+"y")
	}
	return texts
}

// HiddenIn returns the first character of an output that must not stand there as it is. The output may
// hold line feeds and tabs.
func HiddenIn(output string) (c rune, found bool) {
	for _, c := range output {
		if c != '\n' && c != '\t' && unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return c, true
		}
	}
	return 0, false
}
