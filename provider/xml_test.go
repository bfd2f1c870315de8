package provider

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestXMLToJSON checks the conversion of each part of a document. The results are parts of event
// ids, so they must not change.
func TestXMLToJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, doc, want string }{
		{"text", `<a>x</a>`, `{"a":"x"}`},
		{"empty", `<a/>`, `{"a":""}`},
		{"empty, with an end", `<a></a>`, `{"a":""}`},
		{"blank text", `<a> </a>`, `{"a":" "}`},
		{"text is not trimmed", "<a> x\ty </a>", `{"a":" x\u0009y "}`},
		{"line breaks", "<a>x\r\ny\rz</a>", `{"a":"x\u000ay\u000az"}`},
		{"elements", `<a><b>1</b><c>2</c></a>`, `{"a":{"b":"1","c":"2"}}`},
		{"repeated", `<a><b>1</b><c>2</c><b><d/></b></a>`, `{"a":{"b":["1",{"d":""}],"c":"2"}}`},
		{"attributes", `<a y="2" x="1"><b z="&quot;"/></a>`, `{"a":{"@y":"2","@x":"1","b":{"@z":"\""}}}`},
		{"attributes and text", `<a type="datetime">x</a>`, `{"a":{"#text":"x","@type":"datetime"}}`},
		{"attributes and blank text", `<a b="c"> </a>`, `{"a":{"#text":" ","@b":"c"}}`},
		{"text between elements", `<a> x <b/> y </a>`, `{"a":{"#text":" x  y ","b":""}}`},
		{"blanks between elements", "<a>\n  <b/>\n</a>", `{"a":{"b":""}}`},
		{"prefixes", `<s:a xmlns:s="u" xmlns="v" s:x="1"><s:b/><t:b/></s:a>`, `{"a":{"@x":"1","b":["",""]}}`},
		{"two attributes of one name", `<a xmlns:s="u" x="1" s:x="2"/>`, `{"a":{"@x":["1","2"]}}`},
		{"xml:lang", `<a xml:lang="de"/>`, `{"a":{"@lang":"de"}}`},
		{"declaration", "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<a/>\n", `{"a":""}`},
		{"byte order mark", "\ufeff<?xml version=\"1.0\"?><a/>", `{"a":""}`},
		{"comments", `<!-- x --><a>1<!-- 2 -->3<b/><!-- x --></a><!-- x -->`, `{"a":{"#text":"13","b":""}}`},
		{"CDATA", `<a>x<![CDATA[<b>&amp;"]]></a>`, `{"a":"x<b>&amp;\""}`},
		{"the five entities", `<a>&lt;&gt;&amp;&apos;&quot;&#65;&#x1F600;</a>`, `{"a":"<>&'\"A😀"}`},
		{"processing instruction", `<?xml-stylesheet href="x"?><a/>`, `{"a":""}`},
		{"U+FFFD", "<a b='\ufffd'>\ufffd</a>", "{\"a\":{\"#text\":\"\ufffd\",\"@b\":\"\ufffd\"}}"},
		{"backslash", `<a>\u0041"</a>`, `{"a":"\\u0041\""}`},
		{"names", `<a.b-c_1><é/></a.b-c_1>`, `{"a.b-c_1":{"é":""}}`},
		{"100 levels", strings.Repeat("<a>", 100) + strings.Repeat("</a>", 100), strings.Repeat(`{"a":`, 100) + `""` + strings.Repeat("}", 100)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := xmlToJSON([]byte(c.doc))
			if err != nil || string(got) != c.want || !json.Valid(got) {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
		})
	}
}

// TestXMLRefuses checks that an ambiguous or hostile document is refused, and that the error holds
// nothing of its content.
func TestXMLRefuses(t *testing.T) {
	t.Parallel()
	bomb := `<!DOCTYPE canary [<!ENTITY a "canary"><!ENTITY b "&a;&a;&a;">]><canary>&b;</canary>`
	for _, c := range []struct{ name, doc, want string }{
		{"nothing", "", "no element"},
		{"blanks", " \n", "no element"},
		{"only a comment", "<!-- canary -->", "no element"},
		{"JSON", `{"canary":1}`, "outside"},
		{"text before", "canary<a/>", "outside"},
		{"text after", "<a/>canary", "outside"},
		{"two roots", "<a/><canary/>", "more than one root"},
		{"no end", "<canary><b></b>", "line 1"},
		{"wrong end", "<a>\n<canary></b></a>", "line 2"},
		{"wrong case", "<canary></Canary>", "line 1"},
		{"end alone", "</canary>", "line 1"},
		{"document type", "<!DOCTYPE canary><a/>", "document type"},
		{"external entity", `<!DOCTYPE a [<!ENTITY canary SYSTEM "file:///etc/passwd">]><a>&canary;</a>`, "document type"},
		{"entity bomb", bomb, "document type"},
		{"unknown entity", "<a>&canary;</a>", "line 1"},
		{"bare ampersand", "<a>canary & x</a>", "line 1"},
		{"bare bracket", "<a><canary</a>", "line 1"},
		{"attribute without quotes", "<a canary=x/>", "line 1"},
		{"attribute without a value", "<a canary/>", "line 1"},
		{"attribute twice", `<a canary="1" canary="1"/>`, "twice"},
		{"other encoding", `<?xml version="1.0" encoding="ISO-8859-1"?><a>canary</a>`, "UTF-8"},
		{"other version", `<?xml version="1.1"?><a>canary</a>`, "not valid XML"},
		{"late declaration", ` <?xml version="1.0"?><canary/>`, "beginning"},
		{"declaration within", `<canary><?xml version="1.0"?></canary>`, "beginning"},
		{"invalid UTF-8", "<a>canary\xff</a>", "not valid XML"},
		{"invalid UTF-8 in a name", "<canary\xff/>", "not valid XML"},
		{"control character", "<a>canary\x01</a>", "not valid XML"},
		{"escaped control character", "<a>canary&#0;</a>", "not valid XML"},
		{"surrogate", "<a>canary&#xD800;</a>", "not valid XML"},
		{"surrogate in an attribute", "<a b='canary&#55296;'/>", "not valid XML"},
		{"two colons", `<a:b:canary/>`, "not valid XML"},
		{"101 levels", strings.Repeat("<canary>", 101) + strings.Repeat("</canary>", 101), "100 levels"},
		{"a million levels", strings.Repeat("<a>", 1_000_000), "100 levels"},
		{"257 attributes", "<a" + strings.Repeat(" canary='1'", 257) + "/>", "256 attributes"},
		{"100,001 nodes", "<a>" + strings.Repeat("<b/>", 100_000) + "</a>", "100000 elements"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := xmlToJSON([]byte(c.doc))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "canary") || got != nil {
				t.Errorf("got %.80s, %v; want an error that holds %s", got, err, c.want)
			}
		})
	}
}

// TestXMLPieces checks that text in many pieces is joined in linear time.
func TestXMLPieces(t *testing.T) {
	t.Parallel()
	const pieces = 90_000
	got, err := xmlToJSON([]byte("<a>" + strings.Repeat("x<b/>", pieces) + "</a>"))
	want := `{"a":{"#text":"` + strings.Repeat("x", pieces) + `","b":["",`
	if err != nil || !strings.HasPrefix(string(got), want) || !json.Valid(got) {
		t.Errorf("got %.80s, %v", got, err)
	}
}
