package e2e

import "strings"

// good is the request that the other requests are derived from.
const good = "POST /webhooks/github HTTP/1.1\nHost: x\n{signed}\nContent-Length: {length}\n\n{body}"

// replaced returns good with one part replaced.
func replaced(old, with string) string {
	if !strings.Contains(good, old) {
		panic("e2e: the good request has no " + old)
	}
	return strings.Replace(good, old, with, 1)
}

// header returns good with additional header lines.
func header(lines string) string { return replaced("Host: x\n", "Host: x\n"+lines) }

// chunked returns a chunked request with that body.
func chunked(body string) string {
	return replaced("Content-Length: {length}\n\n{body}", "Transfer-Encoding: chunked\n\n"+body)
}

const goodChunks = "{hexlength}\n{body}\n0\n\n"

// framing are requests with odd or broken HTTP framing. The answer is 200 where the signature is
// right and the oddity is harmless.
func framing() []raw {
	length := func(value string) string { return replaced("Content-Length: {length}", "Content-Length: "+value) }
	// GitHub's size limit is higher, because GitHub sends larger bodies.
	toStripe := func(request string) string {
		return strings.Replace(request, "/webhooks/github", "/webhooks/stripe", 1)
	}
	proto := func(version string) string { return replaced("HTTP/1.1", version) }
	return []raw{
		{name: "good", request: good, want: "200"},
		{name: "connect and say nothing", request: "", want: "closed"},
		{name: "half a header block, then nothing", request: "POST /webhooks/github HTTP/1.1\nHost: x\nX-A: b", want: "closed"},
		{name: "TLS hello", request: "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x00", 64), want: "400"},
		{name: "HTTP/2 preface", request: "PRI * HTTP/2.0\n\nSM\n\n", want: "404"}, // no HTTP/2 without TLS
		{name: "HTTP/0.9", request: "GET /webhooks/github\n", want: "400"},
		{name: "HTTP/1.0", request: proto("HTTP/1.0"), want: "200"},
		{name: "HTTP/1.2", request: proto("HTTP/1.2"), want: "200"},
		{name: "HTTP/3.0", request: proto("HTTP/3.0"), want: "505"},
		{name: "leading CRLF", request: "\n" + good, want: "400"},
		{name: "LF only", request: strings.ReplaceAll(good, "\n", "{lf}"), want: "200"},
		{name: "no Host", request: replaced("Host: x\n", ""), want: "400"},
		{name: "two Hosts", request: header("Host: y\n"), want: "400"},
		{name: "a Host that is none", request: replaced("Host: x", "Host: x<y>"), want: "400"},

		{name: "two different lengths", request: header("Content-Length: 7\n"), want: "400"},
		{name: "two equal lengths", request: header("Content-Length: {length}\n"), want: "200"},
		{name: "lengths in a list", request: length("{length}, {length}"), want: "400"},
		{name: "length -1", request: length("-1"), want: "400"},
		{name: "length +n", request: length("+{length}"), want: "400"},
		{name: "length in hex", request: length("0xe"), want: "400"},
		{name: "length empty", request: length(""), want: "400"},
		{name: "length of 20 digits", request: length(strings.Repeat("9", 20)), want: "400"},
		{name: "10 GB declared", request: length("10000000000"), want: "413"},
		{name: "1 MiB and a byte declared", request: toStripe(length("1048577")), want: "413"},
		{name: "body cut, half-close", request: length("4096"), ending: halfCloses, want: "400"},
		{name: "body stalls", request: length("4096"), want: "408"},
		{name: "body stalls at once", request: replaced("{body}", ""), want: "408"},
		{name: "length shorter than the body", request: length("3"), want: "401"},
		{name: "neither length nor encoding", request: replaced("Content-Length: {length}\n", ""), want: "401"},

		{name: "chunked", request: chunked(goodChunks), want: "200"},
		{name: "length and chunked", request: replaced("Content-Length: {length}\n\n{body}",
			"Content-Length: 3\nTransfer-Encoding: chunked\n\n"+goodChunks), want: "200"},
		{name: "gzip, chunked", request: replaced("Content-Length: {length}", "Transfer-Encoding: gzip, chunked"), want: "501"},
		{name: "xchunked", request: replaced("Content-Length: {length}", "Transfer-Encoding: xchunked"), want: "501"},
		{name: "chunked, identity", request: replaced("Content-Length: {length}", "Transfer-Encoding: chunked, identity"), want: "501"},
		{name: "two transfer encodings", request: replaced("Content-Length: {length}", "Transfer-Encoding: chunked\nTransfer-Encoding: chunked"), want: "501"},
		{name: "chunked in HTTP/1.0", request: strings.Replace(chunked(goodChunks), "HTTP/1.1", "HTTP/1.0", 1), want: "401"},
		{name: "space before the colon", request: replaced("Content-Length: {length}", "Transfer-Encoding : chunked"), want: "400"},
		{name: "chunk size is text", request: chunked("zz\n{body}\n0\n\n"), want: "400"},
		{name: "chunk size of 18 digits", request: chunked(strings.Repeat("f", 18) + "\n{body}\n0\n\n"), want: "400"},
		{name: "chunk size ends in a bare LF", request: chunked("{hexlength}{lf}{body}\n0\n\n"), want: "400"},
		{name: "flood of chunk extensions", request: chunked(strings.Repeat("1;"+strings.Repeat("a", 4000)+"\nx\n", 64)), want: "400"},
		{name: "chunked without an end, half-close", request: chunked("{hexlength}\n{body}\n"), ending: halfCloses, want: "400"},
		{name: "2 MiB in chunks", request: toStripe(chunked(strings.Repeat("10000\n"+strings.Repeat("x", 0x10000)+"\n", 32) + "0\n\n")), want: "413"},
		{name: "signature in a trailer only", request: strings.Replace(
			chunked("{hexlength}\n{body}\n0\nX-Hub-Signature-256: {signature}\n\n"),
			"{signed}", "X-GitHub-Event: push\nTrailer: X-Hub-Signature-256", 1), want: "401"},

		{name: "header without a colon", request: header("NoColon\n"), want: "400"},
		{name: "header without a name", request: header(": value\n"), want: "400"},
		{name: "header name with a space", request: header("A B: c\n"), want: "400"},
		{name: "header value with NUL", request: header("X-A: a{nul}b\n"), want: "400"},
		{name: "header value with CR", request: header("X-A: a{cr}b\n"), want: "400"},
		{name: "folded header", request: header("X-A: a\n  b\n"), want: "200"},
		{name: "header value of 8-bit bytes", request: header("X-A: caf\xe9 \xff\n"), want: "200"},
		{name: "header of 32 KiB", request: header("X-A: " + strings.Repeat("a", 32<<10) + "\n"), want: "431"},
		{name: "2,000 small headers", request: header(strings.Repeat("A: b\n", 2000)), want: "431"},
		{name: "10,000 small headers", request: header(strings.Repeat("A: b\n", 10_000)), want: "431"},
		{name: "90 small headers", request: header(strings.Repeat("A: b\n", 90)), want: "200"},

		{name: "Expect: 100-continue", request: header("Expect: 100-continue\n"), want: "200"},
		{name: "Expect: nonsense", request: header("Expect: nonsense\n"), want: "417"},
		{name: "Upgrade: websocket", request: header("Connection: Upgrade\nUpgrade: websocket\n"), want: "200"},
		{name: "Upgrade: h2c", request: header("Connection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: AAMAAABkAAQAAP__\n"), want: "200"},
	}
}

// paths are requests with odd methods, paths and queries.
func paths() []raw {
	method := func(m string) string { return replaced("POST", m) }
	path := func(p string) string { return replaced("/webhooks/github", p) }
	cases := []raw{
		{name: "CONNECT", request: "CONNECT /webhooks/github HTTP/1.1\nHost: x\n\n", want: "405"},
		{name: "post in lower case", request: method("post"), want: "405"},
		{name: "a method that is none", request: method("P<ST"), want: "400"},
		{name: "a method of 40 KiB", request: method(strings.Repeat("A", 40<<10)), want: "431"},
		{name: "a path of 30 KiB", request: path("/webhooks/" + strings.Repeat("a", 30<<10)), want: "431"},
		{name: "unknown source", request: path("/webhooks/nobody"), want: "404"},
		{name: "no source", request: path("/webhooks/"), want: "404"},
		{name: "the root", request: path("/"), want: "404"},
		{name: "a star", request: path("*"), want: "404"},
		{name: "trailing slash", request: path("/webhooks/github/"), want: "404"},
		{name: "doubled slash", request: path("//webhooks/github"), want: "404"},
		{name: "doubled slash inside", request: path("/webhooks//github"), want: "404"},
		{name: "dots", request: path("/in/../webhooks/github"), want: "404"},
		{name: "one dot", request: path("/webhooks/./github"), want: "404"},
		{name: "escaped slash", request: path("/webhooks%2Fgithub"), want: "404"},
		{name: "escaped letter", request: path("/webhooks/%67ithub"), want: "404"},
		{name: "escaped NUL", request: path("/webhooks/github%00"), want: "404"},
		{name: "broken escape", request: path("/webhooks/%zz"), want: "400"},
		{name: "raw space", request: path("/webhooks/git hub"), want: "400"},
		{name: "another case", request: path("/webhooks/GitHub"), want: "404"},
		{name: "the admin API", request: strings.Replace(path("/api/v1/events"), "POST", "GET", 1), want: "404"},
		{name: "the probe", request: strings.Replace(path("/readyz"), "POST", "GET", 1), want: "404"},
		{name: "absolute form with another host", request: path("http://elsewhere.example/webhooks/github"), want: "200"},
		{name: "a query that is broken", request: path("/webhooks/github?a=%zz"), want: "200"},
		{name: "a signature in the query", request: strings.Replace(path("/webhooks/github?X-Hub-Signature-256=sha256=00"), "{signed}", "X-GitHub-Event: push", 1), want: "401"},
	}
	for _, m := range []string{"GET", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} {
		cases = append(cases, raw{name: m, request: method(m), want: "405"})
	}
	return append(cases, raw{name: "HEAD", request: "HEAD /webhooks/github HTTP/1.1\nHost: x\n\n", want: "405"})
}
