package verify_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/hookonce/hookonce/verify"
)

// family is a scheme with the regions of a request that it signs.
type family struct {
	name   string
	scheme verify.Scheme
	secret string
	fill   func(t *rapid.T, req *verify.Request) // sets signed values; the body is random already
	signed []region
}

// region is a part of a request. Every changed byte must fail verification, unless the old and the
// new text are alike.
type region struct {
	name  string // body, query, or the name of a header
	alike func(a, b string) bool
}

func (r region) get(req *verify.Request) string {
	switch r.name {
	case "body":
		return string(req.Body)
	case "query":
		return req.RawQuery
	}
	return req.Header.Get(r.name)
}

func (r region) set(req *verify.Request, text string) {
	switch r.name {
	case "body":
		req.Body = []byte(text)
	case "query":
		req.RawQuery = text
	default:
		req.Header[http.CanonicalHeaderKey(r.name)] = []string{text}
	}
}

var (
	wholeBody  = region{name: "body"}
	wholeQuery = region{name: "query"}
)

// header is the region of a header whose hexadecimal digits may change case.
func header(name string) region { return region{name, strings.EqualFold} }

func exact(name string) region { return region{name: name} }

// families returns a scheme for every form that shapes does not have.
func families() []family {
	return slices.Concat(listFamilies(), urlFamilies(), formFamilies(), documentFamilies(), tokenFamilies())
}

func at(location, format string) *verify.Timestamp {
	return &verify.Timestamp{At: location, Format: format}
}

func drawWord(t *rapid.T, label string) string {
	return rapid.StringMatching(`[a-zA-Z0-9_-]{1,12}`).Draw(t, label)
}

// setForm sets the body to a form with the given fields and a few others.
func setForm(names ...string) func(t *rapid.T, req *verify.Request) {
	return func(t *rapid.T, req *verify.Request) {
		form := url.Values{}
		for _, name := range append(names, rapid.SliceOfNDistinct(rapid.StringMatching(`[f-h]{1,2}`), 0, 3, rapid.ID).Draw(t, "names")...) {
			form.Set(name, rapid.StringMatching(`[a-c][a-c&=+ é]{0,5}`).Draw(t, "field"))
		}
		req.Body = []byte(form.Encode())
	}
}

// sameForm compares two forms by the result of reading.
func sameForm(reading func(url.Values) string) func(a, b string) bool {
	return func(a, b string) bool {
		// ParseQuery refuses ';', which is an ordinary character here.
		first, errFirst := url.ParseQuery(strings.ReplaceAll(a, ";", "%3B"))
		second, errSecond := url.ParseQuery(strings.ReplaceAll(b, ";", "%3B"))
		return errFirst == nil && errSecond == nil && strings.EqualFold(reading(first), reading(second))
	}
}

// sameJSON compares two documents by the given fields.
func sameJSON(fields ...string) func(a, b string) bool {
	return func(a, b string) bool {
		return slices.EqualFunc(jsonFields(a, fields), jsonFields(b, fields), strings.EqualFold)
	}
}

func jsonFields(doc string, fields []string) []string {
	var texts []string
	for _, field := range fields {
		var v any
		if err := json.Unmarshal([]byte(doc), &v); err != nil {
			return []string{doc}
		}
		for _, key := range strings.Split(field, ".") {
			switch node := v.(type) {
			case map[string]any:
				v = node[key]
			case []any:
				v = node[key[0]-'0']
			}
		}
		text, err := json.Marshal(v)
		if err != nil {
			return []string{doc}
		}
		texts = append(texts, string(text))
	}
	return texts
}

func listFamilies() []family {
	const timed = "{timestamp}.{body}"
	return []family{
		{name: "list with the time", secret: hmacSecret, scheme: verify.Scheme{
			Family: "hmac", Header: "X-Sig", Format: "list", Content: timed, Timestamp: at("header:X-Sig#0", "unix_ms"),
		}, signed: []region{wholeBody, header("X-Sig")}},
		{name: "list with points", secret: hmacSecret, scheme: verify.Scheme{
			Family: "hmac", Header: "X-Sig", Format: "list", Separator: ".", Algorithm: "md5", Content: timed, Timestamp: at("header:X-Time", "any"),
		}, signed: []region{wholeBody, header("X-Sig"), exact("X-Time")}},
		{name: "groups", secret: hmacSecret, scheme: verify.Scheme{
			Family: "hmac", Header: "X-Sig", Format: "groups", SignatureKeys: []string{"v1"}, Content: timed, Timestamp: at("header:X-Sig#t", ""),
		}, signed: []region{wholeBody, header("X-Sig")}},
		{name: "kv with blanks", secret: hmacSecret, scheme: verify.Scheme{
			Family: "hmac", Header: "X-Sig", Format: "kv", Separator: ";", SignatureKeys: []string{"h1"}, Encoding: "base64",
			Content: "{timestamp}:{body}", Timestamp: at("header:X-Sig#ts", ""),
		}, signed: []region{wholeBody, exact("X-Sig")}},
		{name: "json header", secret: hmacSecret, scheme: verify.Scheme{
			Family: "hmac", Header: "X-Sig", Format: "json", SignatureKeys: []string{"signature"}, Content: "{base64:body}",
		}, signed: []region{wholeBody, {"X-Sig", func(a, b string) bool {
			first, errFirst := base64.StdEncoding.DecodeString(a)
			second, errSecond := base64.StdEncoding.DecodeString(b)
			return errFirst == nil && errSecond == nil && sameJSON("signature")(string(first), string(second))
		}}}},
		{name: "escaped", secret: hmacSecret, scheme: verify.Scheme{
			Family: "hmac", Header: "X-Sig", Encoding: "urlescaped", Prefix: "v=", PrefixOptional: true, Content: "{sha256_base64:body}",
		}, signed: []region{wholeBody, {"X-Sig", func(a, b string) bool {
			first, errFirst := url.PathUnescape(strings.TrimPrefix(a, "v="))
			second, errSecond := url.PathUnescape(strings.TrimPrefix(b, "v="))
			return errFirst == nil && errSecond == nil && first == second
		}}}},
		{name: "digits in base64", secret: hmacSecret, scheme: verify.Scheme{
			Family: "hmac", Header: "X-Sig", Encoding: "base64hex", SecretEncoding: "sha1", Content: "{base64url:body}",
		}, signed: []region{wholeBody, exact("X-Sig")}},
		{name: "more headers", secret: hmacSecret, scheme: verify.Scheme{
			Family: "hmac", Header: "X-Sig", MoreHeaders: []string{"X-Sig-2"}, SecretEncoding: "nfkd", Content: "{body}{timestamp}",
			Timestamp: at("header:X-Time", "rfc3339"), Require: []verify.Requirement{{At: "header:X-Version", Equals: "1"}},
		}, signed: []region{wholeBody, header("X-Sig"), header("X-Time"), exact("X-Version")}},
		{name: "digest", secret: hmacSecret, scheme: verify.Scheme{
			Family: "digest", Weak: "a hash", Header: "X-Sig", Algorithm: "sha1", Content: "{body}{timestamp}{secret}", Timestamp: at("header:X-Time", ""),
		}, signed: []region{wholeBody, header("X-Sig"), exact("X-Time")}},
	}
}

func urlFamilies() []family {
	query := func(t *rapid.T, req *verify.Request) {
		req.RawQuery = url.Values{"id": {drawWord(t, "id")}, "b": {rapid.StringMatching(`[:/?@!$'()*,; a]{0,8}`).Draw(t, "b")}}.Encode()
	}
	sameQuery := region{"query", sameForm(url.Values.Encode)}
	return []family{
		{name: "url and body", secret: hmacSecret, fill: query, scheme: verify.Scheme{
			Family: "hmac", Header: "X-Sig", Content: "{url}{body}",
		}, signed: []region{wholeBody, wholeQuery, header("X-Sig")}},
		{name: "any port", secret: hmacSecret, fill: query, scheme: verify.Scheme{
			Family: "hmac", Header: "X-Sig", Content: "{body}{url}", AnyPort: true,
		}, signed: []region{wholeBody, wholeQuery, header("X-Sig")}},
		{name: "hash of the body in the url", secret: hmacSecret, fill: query, scheme: verify.Scheme{
			Family: "hmac", Header: "X-Sig", Content: "{url}", Require: []verify.Requirement{{At: "query:hash", Equals: "{sha256:body}"}},
		}, signed: []region{wholeBody, wholeQuery, header("X-Sig")}},
		{name: "path and query", secret: hmacSecret, fill: query, scheme: verify.Scheme{
			Family: "hmac", Header: "X-Sig", Content: `{method}\n{path_query}\n{timestamp}\n{sha256:body}`, Timestamp: at("header:X-Time", ""),
		}, signed: []region{wholeBody, wholeQuery, header("X-Sig"), exact("X-Time")}},
		{name: "unescaped url", secret: hmacSecret, fill: query, scheme: verify.Scheme{
			Family: "hmac", Header: "X-Sig", Content: "{method}{url_unescaped}{body}{timestamp}", Timestamp: at("header:X-Time", "unix_ms"),
		}, signed: []region{wholeBody, sameQuery, header("X-Sig"), exact("X-Time")}},
		{name: "hash of the url", secret: hmacSecret, fill: query, scheme: verify.Scheme{
			Family: "hmac", Header: "X-Sig", Content: "{sha256:url}{sha256_raw:body}",
		}, signed: []region{wholeBody, wholeQuery, header("X-Sig")}},
		{name: "sorted query", secret: hmacSecret, fill: query, scheme: verify.Scheme{
			Family: "hmac", Header: "X-Sig", Content: `{timestamp}\n{sorted_query}\n{sha256_raw:body}`, Timestamp: at("header:X-Time", ""),
		}, signed: []region{wholeBody, sameQuery, header("X-Sig"), exact("X-Time")}},
		{name: "hash of the query", secret: hmacSecret, fill: query, scheme: verify.Scheme{
			Family: "hmac", Header: "X-Sig", Content: "{qsh}.{body}",
		}, signed: []region{wholeBody, sameQuery, header("X-Sig")}},
		{name: "listed headers", secret: hmacSecret, fill: query, scheme: verify.Scheme{
			Family: "hmac", Header: "X-Sig", Content: `{method}\n{path_query_escaped}\n{signed_headers}\n{body}`, Timestamp: at("header:X-Contentful-Timestamp", "unix_ms"),
		}, signed: []region{wholeBody, wholeQuery, header("X-Sig"), exact("X-Contentful-Timestamp"), exact("X-Contentful-Signed-Headers")}},
		{name: "manifest", secret: hmacSecret, fill: func(t *rapid.T, req *verify.Request) {
			req.RawQuery = "data.id=" + drawWord(t, "id")
			req.Header.Set("X-Request-Id", drawWord(t, "request"))
		}, scheme: verify.Scheme{
			Family: "hmac", Header: "X-Sig", Format: "kv", SignatureKeys: []string{"v1"}, Content: "{mercado_pago}", Partial: "the body",
			Timestamp: at("header:X-Sig#ts", "any"),
		}, signed: []region{{"query", strings.EqualFold}, header("X-Sig"), exact("X-Request-Id")}},
		{name: "query and header", secret: hmacSecret, fill: query, scheme: verify.Scheme{
			Family: "hmac", Header: "X-Sig", Content: "{query:id}/{header:X-Id}/{body}",
		}, signed: []region{wholeBody, header("X-Sig"), exact("X-Id")}},
	}
}

func formFamilies() []family {
	sorted := func(v url.Values) string { // as in Twilio's library
		var text string
		for _, name := range slices.Sorted(func(yield func(string) bool) {
			for name := range v {
				if !yield(name) {
					return
				}
			}
		}) {
			values := slices.Clone(v[name])
			slices.Sort(values)
			for _, value := range slices.Compact(values) {
				text += name + value
			}
		}
		return text
	}
	vonage := func(v url.Values) string {
		return strings.NewReplacer("%26", "_", "%3D", "_").Replace(v.Encode())
	}
	return []family{
		{name: "sorted form", secret: hmacSecret, fill: setForm("a", "b"), scheme: verify.Scheme{
			Family: "hmac", Header: "X-Sig", Content: "{url}{sorted_form}",
		}, signed: []region{{"body", sameForm(sorted)}, header("X-Sig")}},
		{name: "php form", secret: hmacSecret, fill: setForm("a", "b"), scheme: verify.Scheme{
			Family: "hmac", At: "form:sig", Content: "{php_form}",
		}, signed: []region{{"body", sameForm(url.Values.Encode)}}},
		{name: "vonage", secret: hmacSecret, fill: setForm("a", "b"), scheme: verify.Scheme{
			Family: "hmac", At: "form:sig", Content: "{vonage_params}",
		}, signed: []region{{"body", sameForm(vonage)}}},
		{name: "vonage in the query", secret: hmacSecret, fill: func(t *rapid.T, req *verify.Request) {
			setForm("a", "b")(t, req)
			req.RawQuery = string(req.Body)
		}, scheme: verify.Scheme{
			Family: "digest", Weak: "a hash", Algorithm: "md5", At: "query:sig", Content: "{vonage_params}{secret}",
		}, signed: []region{{"query", sameForm(vonage)}}},
		{name: "pairs", secret: hmacSecret, fill: setForm("payload"), scheme: verify.Scheme{
			Family: "hmac", At: "form:sig", Format: "pairs", SignatureKeys: []string{"ours"}, Content: "{form:payload}", Partial: "other fields",
			Params: []verify.Param{{Name: "ours", About: "our id"}}, Values: map[string]string{"ours": "our-id"},
		}, signed: []region{{"body", sameForm(func(v url.Values) string { return v.Get("payload") + "|" + v.Get("sig") })}}},
		{name: "fields of a form", secret: hmacSecret, fill: setForm("token"), scheme: verify.Scheme{
			Family: "hmac", At: "form:sig", Content: "{form:time}{form:token}", Partial: "other fields", Timestamp: at("form:time", ""),
		}, signed: []region{{"body", sameForm(func(v url.Values) string { return v.Get("time") + "|" + v.Get("token") + "|" + v.Get("sig") })}}},
	}
}

func documentFamilies() []family {
	items := func(t *rapid.T, req *verify.Request) {
		var list []map[string]any
		for range rapid.IntRange(1, 2).Draw(t, "items") {
			list = append(list, map[string]any{"id": drawWord(t, "id"), "n": rapid.IntRange(0, 99).Draw(t, "n"), "rest": "x"})
		}
		req.Body, _ = json.Marshal(map[string]any{"list": list})
	}
	return []family{
		{name: "fields of a document", secret: hmacSecret, fill: func(t *rapid.T, req *verify.Request) {
			req.Body, _ = json.Marshal(map[string]any{"signature": map[string]any{"token": drawWord(t, "token")}, "event": "x"})
		}, scheme: verify.Scheme{
			Family: "hmac", At: "body:signature.value", Content: "{json:signature.time}/{json:signature.token}", Partial: "the event",
			Timestamp: at("body:signature.time", ""),
		}, signed: []region{{"body", sameJSON("signature.time", "signature.token", "signature.value")}}},
		{name: "sns", secret: hmacSecret, fill: func(t *rapid.T, req *verify.Request) {
			req.Body, _ = json.Marshal(map[string]any{
				"Message": rapid.StringMatching(`[a"\n]{1,9}`).Draw(t, "message"), "MessageId": drawWord(t, "id"), "TopicArn": drawWord(t, "topic"), "Type": "Notification",
			})
		}, scheme: verify.Scheme{
			Family: "hmac", At: "body:Signature", Content: "{sns}", Partial: "some links", Timestamp: at("body:Timestamp", "rfc3339"),
		}, signed: []region{{"body", sameJSON("Message", "MessageId", "Subject", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type", "Signature")}}},
		{name: "every item", secret: hmacSecret, fill: items, scheme: verify.Scheme{
			Family: "hmac", Each: "body:list", At: "item:sig.value", Content: "{item:id}:{item:n}:{item:absent}", Partial: "other fields",
		}, signed: []region{{"body", sameJSON("list.0.id", "list.0.n", "list.0.absent", "list.0.sig.value")}}},
	}
}

func tokenFamilies() []family {
	document := func(_ *rapid.T, req *verify.Request) { req.Body = []byte(`{"list":[{"id":1}],"event":"x"}`) }
	return []family{
		{name: "token", secret: hmacSecret, scheme: verify.Scheme{
			Family: "token", Header: "X-Token", Prefix: "Bearer ", Require: []verify.Requirement{{At: "header:X-Kind", Equals: "a{method}"}},
		}, signed: []region{exact("X-Token"), exact("X-Kind")}},
		{
			name: "token in a document", secret: hmacSecret, fill: document, scheme: verify.Scheme{Family: "token", At: "body:auth.token"},
			signed: []region{{"body", sameJSON("auth.token")}},
		},
		{name: "token in the query", secret: hmacSecret, scheme: verify.Scheme{Family: "token", At: "query:token"}, signed: []region{wholeQuery}},
		{name: "token in every item", secret: hmacSecret, fill: document, scheme: verify.Scheme{
			Family: "token", Each: "body:list", At: "item:state",
		}, signed: []region{{"body", sameJSON("list.0.state")}}},
		{name: "basic", secret: "user:" + hmacSecret, scheme: verify.Scheme{Family: "basic"}, signed: []region{{"Authorization", func(a, b string) bool {
			first, rest, _ := strings.Cut(a, " ")
			second, other, _ := strings.Cut(b, " ")
			return strings.EqualFold(first, second) && rest == other
		}}}},
	}
}
