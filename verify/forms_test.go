package verify_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/verify"
)

// TestSpellings checks that every encoding of a signature has one accepted spelling, except for the
// free choices that the package documentation lists.
func TestSpellings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		encoding string
		change   func(sig string) string
		want     string
	}{
		{"hex", strings.ToUpper, "valid"},
		{"hex", func(s string) string { return s + "00" }, "malformed"},
		{"hex", func(s string) string { return s[:32] + "\n" + s[32:] }, "malformed"},
		{"hex", func(s string) string { return "0x" + s }, "malformed"},
		{"base64", func(s string) string { return s[:20] + "\n" + s[20:] }, "malformed"},
		{"base64", func(s string) string { return s[:20] + "\r\n" + s[20:] }, "malformed"},
		{"base64", func(s string) string { return s + "\n" }, "malformed"},
		{"base64", func(s string) string { return strings.TrimRight(s, "=") }, "malformed"},
		{"base64", func(s string) string { return s + "=" }, "malformed"},
		{"base64url", func(s string) string { return s + "=" }, "valid"},
		{"base64url", func(s string) string { return s + "\n" }, "malformed"},
		{"base64hex", func(s string) string { return s[:20] + "\n" + s[20:] }, "malformed"},
		{"base64hex", func(s string) string { return strings.TrimRight(s, "=") }, "malformed"},
		{"urlescaped", func(s string) string { u, _ := url.PathUnescape(s); return u }, "valid"},
		{"urlescaped", func(s string) string { return strings.NewReplacer("%2B", "-", "%2F", "_", "%3D", "").Replace(s) }, "valid"},
		{"urlescaped", func(s string) string { return s + "%0A" }, "malformed"},
		{"urlescaped", func(s string) string { return s + "%" }, "malformed"},
		{"urlescaped", func(s string) string { return strings.ReplaceAll(s, "%", "%25") }, "malformed"},
	} {
		v := mustCompile(t, verify.Scheme{Family: "hmac", Header: "X-Sig", Encoding: c.encoding})
		keys := mustKeys(t, v, hmacSecret)
		req := signedRequest(t, v, keys[0], `{"the body":"whose signature has a + and a / in base64"}37`)
		wantVerdict(t, v.Verify(req, keys), "valid")
		changed := c.change(req.Header.Get("X-Sig"))
		if changed == req.Header.Get("X-Sig") {
			t.Fatalf("%s: nothing has changed in %q", c.encoding, changed)
		}
		req.Header["X-Sig"] = []string{changed}
		t.Run(c.encoding+"/"+changed, func(t *testing.T) {
			t.Parallel()
			wantVerdict(t, v.Verify(req, keys), c.want)
		})
	}
}

// TestBasicSpellings is TestSpellings for basic authentication.
func TestBasicSpellings(t *testing.T) {
	t.Parallel()
	v := mustCompile(t, verify.Scheme{Family: "basic", Require: []verify.Requirement{{At: "header:X-Kind", Equals: "a"}}})
	keys := mustKeys(t, v, "user:a password")
	for value, want := range map[string]string{
		"Basic dXNlcjphIHBhc3N3b3Jk":   "valid",
		"Basic dXNlcjphIHBhc3N3b3J\nk": "malformed",
		"bASIC dXNlcjphIHBhc3N3b3Jk":   "valid",
		"Basic  dXNlcjphIHBhc3N3b3Jk":  "valid",
		"Basic\tdXNlcjphIHBhc3N3b3Jk":  "malformed",
		"Basic dXNlcjphIHBhc3N3b3Jk ":  "malformed",
		"Basic":                        "mismatch",
		"dXNlcjphIHBhc3N3b3Jk":         "malformed",
	} {
		req := &verify.Request{Header: map[string][]string{"Authorization": {value}, "X-Kind": {"a"}}}
		wantVerdict(t, v.Verify(req, keys), want)
		req.Header.Set("X-Kind", "b")
		if want == "valid" {
			want = "mismatch"
		}
		wantVerdict(t, v.Verify(req, keys), want)
	}
}

// TestPrefixSpellings is TestSpellings for the text before a token or a signature. Only in the header Authorization
// are the case of a scheme and the number of spaces free.
func TestPrefixSpellings(t *testing.T) {
	t.Parallel()
	for _, s := range []verify.Scheme{{Family: "token"}, {Family: "hmac"}, tokenScheme("HS256")} {
		for _, place := range [][2]string{{"Authorization", " "}, {"Authorization", "="}, {"X-Sig", " "}} {
			end, free := place[1], place == [2]string{"Authorization", " "}
			s.Header, s.Prefix = place[0], "Bearer"+end
			v := mustCompile(t, s)
			keys := mustKeys(t, v, hmacSecret)
			req := signedRequest(t, v, keys[0], "{}")
			text := strings.TrimPrefix(req.Header.Get(s.Header), s.Prefix)
			for spelled, valid := range map[string]bool{
				"Bearer" + end + text: true, "bearer" + end + text: free, "BEARER" + end + text: free, "Bearer" + end + "  " + text: free,
				"Bearer\t" + text: false, "Bearer" + text: false, text: false, "Token" + end + text: false, "Bearer" + end + "\t" + text: false,
				"Bearer": false, "Bearer" + end: false, "Bearer" + end + "Bearer" + end + text: false,
			} {
				req.Header.Set(s.Header, spelled)
				if err := v.Verify(req, keys); (err == nil) != valid {
					t.Errorf("%s, %s, prefix %q: %q: %v", s.Family, s.Header, s.Prefix, spelled, err)
				}
			}
		}
	}
}

// TestGroupsRequire checks Scheme.Require with the format groups.
func TestGroupsRequire(t *testing.T) {
	t.Parallel()
	v := mustCompile(t, verify.Scheme{
		Family: "hmac", Header: "X-Sig", Format: "groups", SignatureKeys: []string{"v1"}, Content: "{timestamp}.{body}",
		Timestamp: at("header:X-Sig#t", ""), Require: []verify.Requirement{{At: "body:team", Equals: "a"}},
	})
	keys := mustKeys(t, v, hmacSecret)
	signer := mustCompile(t, verify.Scheme{
		Family: "hmac", Header: "X-Sig", Format: "groups", SignatureKeys: []string{"v1"}, Content: "{timestamp}.{body}", Timestamp: at("header:X-Sig#t", ""),
	})
	for body, want := range map[string]string{
		`{"team":"a"}`: "valid", `{"team":"b"}`: "mismatch", `{"team":null}`: "missing", `{"team":"b","team":"a"}`: "malformed",
	} {
		wantVerdict(t, v.Verify(signedRequest(t, signer, keys[0], body), keys), want)
	}
}

// TestSNSMessageIsOneMember rearranges a signed message without changing the signed bytes. Part of
// its text, which every customer of the sender can choose, becomes the topic.
func TestSNSMessageIsOneMember(t *testing.T) {
	t.Parallel()
	v := mustCompile(t, verify.Scheme{Family: "hmac", At: "body:Signature", Content: "{sns}", Partial: "links"})
	keys := mustKeys(t, v, hmacSecret)
	document := func(members map[string]string) string {
		raw, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	own := "forged\nMessageId\n1\nTimestamp\n2\nTopicArn\nvictim\nType\nNotification"
	req := signedRequest(t, v, keys[0], document(map[string]string{
		"Message": own, "MessageId": "m", "Timestamp": "t", "TopicArn": "attacker", "Type": "Notification",
	}))
	wantVerdict(t, v.Verify(req, keys), "valid")
	var signed map[string]string
	if err := json.Unmarshal(req.Body, &signed); err != nil {
		t.Fatal(err)
	}
	req.Body = []byte(document(map[string]string{
		"Message": "forged", "MessageId": "1", "Timestamp": "2", "TopicArn": "victim", "Signature": signed["Signature"],
		"Type": "Notification\nMessageId\nm\nTimestamp\nt\nTopicArn\nattacker\nType\nNotification",
	}))
	wantVerdict(t, v.Verify(req, keys), "malformed")
	for _, body := range []string{`{}`, `[]`, `x`, `{"Message":{}}`} {
		req.Body = []byte(strings.Replace(body, "{", `{"Signature":"00",`, 1))
		if err := v.Verify(req, keys); err == nil {
			t.Errorf("%s passes", body)
		}
	}
}

// TestFormRefusalTellsTheCause checks the text of a refusal, which the log shows.
func TestFormRefusalTellsTheCause(t *testing.T) {
	t.Parallel()
	v := mustCompile(t, verify.Scheme{Family: "hmac", At: "form:sig", Content: "{form:token}", Partial: "the event"})
	keys := mustKeys(t, v, hmacSecret)
	for body, want := range map[string]string{
		"--b\r\n\r\na\r\n--b--": "scheme hmac: malformed: form:sig: a part of the form has no clear name",
		"sig={":                 "scheme hmac: malformed: form:sig: not an urlencoded form",
		"--b\r\nContent-Disposition: form-data; name=sig\r\nContent-Transfer-Encoding: base64\r\n\r\na\r\n--b--": "scheme hmac: malformed: form:sig: the field has a " +
			"Content-Transfer-Encoding such as base64, which is not read: send the value itself",
	} {
		err := v.Verify(&verify.Request{Header: http.Header{}, Body: []byte(body), Now: receivedAt}, keys)
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestFormWithAMark verifies urlencoded forms behind a byte order mark, which no sender signs as part of a field.
func TestFormWithAMark(t *testing.T) {
	t.Parallel()
	for _, s := range []verify.Scheme{
		{Family: "hmac", At: "form:sig", Content: "{form:token}", Partial: "the event"},
		{Family: "hmac", Header: "X-Sig", Content: "{sorted_form}"},
	} {
		v := mustCompile(t, s)
		keys := mustKeys(t, v, hmacSecret)
		req := signedRequest(t, v, keys[0], "token=a%2Bb&subject=x")
		req.Body = append([]byte("\ufeff"), req.Body...)
		wantVerdict(t, v.Verify(req, keys), "valid")
	}
}

// TestRefusedForms signs requests correctly, with contents that could be read in two ways or take
// long to read.
func TestRefusedForms(t *testing.T) {
	t.Parallel()
	sign := func(content string) func(*verify.Scheme) {
		return func(s *verify.Scheme) {
			s.Content, s.Params, s.Values = "{param:text}", []verify.Param{{Name: "text"}}, map[string]string{"text": content}
		}
	}
	for _, c := range []struct {
		name, family string
		as           func(*verify.Scheme) // signs in place of the scheme
		change       func(*verify.Request)
		want         string
	}{
		{
			"a field twice in php", "php form", sign(`a:2:{s:1:"a";s:1:"1";s:1:"a";s:1:"2";}`),
			func(r *verify.Request) { r.Body = append(r.Body, "&a=1&a=2"...) }, "repeated",
		},
		{
			"a name that holds a value", "vonage", sign("&a&b=1=2"),
			func(r *verify.Request) { r.Body = append(r.Body, "&a%26b%3D1=2"...) }, "malformed",
		},
		{
			"1,001 fields", "fields of a form", nil,
			func(r *verify.Request) { r.Body = append(r.Body, strings.Repeat("&x=1", 1001)...) }, "malformed",
		},
		{
			"17 groups without a signature", "groups", nil,
			func(r *verify.Request) {
				r.Header.Set("X-Sig", r.Header.Get("X-Sig")+strings.Repeat(" t=1760000000", 16))
			}, "malformed",
		},
		{
			"16 groups, 15 of them without a signature", "groups", nil,
			func(r *verify.Request) {
				r.Header.Set("X-Sig", r.Header.Get("X-Sig")+strings.Repeat(" t=1760000000", 15))
			}, "valid",
		},
		{
			"a line break in the json header", "json header", nil,
			func(r *verify.Request) {
				r.Header["X-Sig"] = []string{r.Header.Get("X-Sig")[:8] + "\n" + r.Header.Get("X-Sig")[8:]}
			}, "malformed",
		},
		{
			"a json header of 16 kB", "json header", nil,
			func(r *verify.Request) { r.Header.Set("X-Sig", strings.Repeat("ICAg", 4096)+r.Header.Get("X-Sig")) }, "malformed",
		},
		{
			"an empty signature in the json header", "json header", nil,
			func(r *verify.Request) {
				r.Header.Set("X-Sig", base64.StdEncoding.EncodeToString([]byte(`{"signature":""}`)))
			}, "missing",
		},
		{
			"a header listed twice", "listed headers", nil,
			func(r *verify.Request) {
				r.Header.Set("X-Contentful-Signed-Headers", "x-contentful-signed-headers,x-contentful-timestamp,x-contentful-timestamp")
			}, "malformed",
		},
		{
			"a segment in the request id", "manifest", nil,
			func(r *verify.Request) { r.Header.Set("X-Request-Id", "a;ts:1") }, "malformed",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			families := families()
			i := slices.IndexFunc(families, func(f family) bool { return f.name == c.family })
			f := families[i]
			v := mustCompile(t, f.scheme)
			keys := mustKeys(t, v, f.secret)
			signer := f.scheme
			if c.as != nil {
				c.as(&signer)
				signer.Partial = "all"
			}
			req := &verify.Request{
				Method: "POST", URL: "https://hooks.example.com/in", Header: http.Header{"X-Request-Id": {"r"}}, Now: receivedAt,
			}
			if signer.At != "" {
				req.Body = []byte("token=a")
				if c.as != nil {
					req.Body = nil
				}
			}
			if err := mustCompile(t, signer).Sign(req, keys[0]); err != nil {
				t.Fatal(err)
			}
			c.change(req)
			wantVerdict(t, v.Verify(req, keys), c.want)
		})
	}
}

// TestMultipartForms verifies signatures in multipart/form-data, which Mailgun sends with attachments.
// Only places of a form are read there: a signature over all fields would leave the files unsigned.
func TestMultipartForms(t *testing.T) {
	t.Parallel()
	v := mustCompile(t, verify.Scheme{
		Family: "hmac", At: "form:signature", Content: "{timestamp}{form:token}", Partial: "the event", Timestamp: at("form:timestamp", ""),
	})
	all := mustCompile(t, verify.Scheme{Family: "hmac", Header: "X-Sig", Content: "{sorted_form}"})
	keys := mustKeys(t, v, hmacSecret)
	urlencoded := signedRequest(t, v, keys[0], "token=a%2Bb&subject=x")
	fields, err := url.ParseQuery(string(urlencoded.Body))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		want, without string
		add           func(w *multipart.Writer)
	}{
		"fields":                {want: "valid"},
		"and a file":            {"valid", "", func(w *multipart.Writer) { _, _ = w.CreateFormFile("attachment-1", "token") }},
		"a repeated token":      {"repeated", "", func(w *multipart.Writer) { _ = w.WriteField("token", "a+b") }},
		"a token as file, too":  {"malformed", "", func(w *multipart.Writer) { _, _ = w.CreateFormFile("token", "x") }},
		"a repeated signature":  {"repeated", "", func(w *multipart.Writer) { _ = w.WriteField("signature", "00") }},
		"no token":              {want: "missing", without: "token"},
		"a part without a name": {"malformed", "", func(w *multipart.Writer) { _, _ = w.CreatePart(nil) }},
		"an odd file name": {"valid", "", func(w *multipart.Writer) {
			_, _ = w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {`form-data; name="attachment-1"; filename="the "best".pdf"`}})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var body bytes.Buffer
			w := multipart.NewWriter(&body)
			for field, values := range fields {
				if field != c.without {
					_ = w.WriteField(field, values[0])
				}
			}
			if c.add != nil {
				c.add(w)
			}
			_ = w.Close()
			req := &verify.Request{Header: http.Header{}, Body: body.Bytes(), Now: receivedAt}
			wantVerdict(t, v.Verify(req, keys), c.want)
			req.Header.Set("X-Sig", "00")
			if err := all.Verify(req, keys); err == nil || errors.Is(err, verify.ErrMismatch) {
				t.Errorf("a signature over all fields: %v, want malformed", err)
			}
			if err := v.Sign(req, keys[0]); err == nil {
				t.Error("Sign changes a multipart form")
			}
		})
	}
}
