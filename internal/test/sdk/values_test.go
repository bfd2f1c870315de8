package sdk

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/sample"
	"github.com/hookonce/hookonce/internal/test/sdk/providers"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// oddValue is a text for a signed part of a request.
type oddValue struct{ name, text string }

// oddValues have separators inside, both cases, no text, other letters, a great length.
var oddValues = []oddValue{
	{"capitals", "ORDTST01M2V0ABC"},
	{"small letters", "ordtst01m2v0abc"},
	{"empty", ""},
	{"zero", "0"},
	{"number", "-1.50"},
	{"colon", "a:b"},
	{"semicolon", "a;b"},
	{"bar", "a|b"},
	{"dot", "a.b"},
	{"comma", "a,b"},
	{"ampersand", "a=b&c=d"},
	{"space", "a b"},
	{"plus", "a+b"},
	{"escape", "a%20b"},
	{"slash", "a/b?c#d"},
	{"quote", `a"b\c`},
	{"line", "a\nb"},
	{"markup", "<a>'b'"},
	{"non-ASCII", "Größe ÄÖ 世界 😀"},
	{"long", strings.Repeat("Ab1-", 500)},
}

// signedPart is a part of a request whose text the sender chooses and the signature covers.
type signedPart struct {
	name string
	set  func(req *verify.Request, value string) error
	// again repeats the part with another value; nil if it cannot be repeated.
	again func(req *verify.Request)
}

var placeholder = regexp.MustCompile(`\{(\w+)(?::([^}]*))?\}`)

// templates returns the templates of the signed content.
func templates(s *verify.Scheme) []string {
	var all []string
	switch s.Family {
	case verify.FamilyStandardWebhooks:
		all = append(all, "{header:"+standardID(s)+"} {body}")
	case verify.FamilyJWT:
		for _, claim := range s.JWT.Claims {
			all = append(all, claim.Equals)
		}
	case verify.FamilyToken, verify.FamilyBasic, verify.FamilyNone: // they sign nothing of a request
	default:
		all = append(all, cmp.Or(s.Content, "{body}"))
	}
	for _, r := range s.Require {
		all = append(all, r.Equals)
	}
	return all
}

func standardID(s *verify.Scheme) string {
	if s.Timestamp != nil && strings.HasPrefix(s.Timestamp.At, "header:svix-") {
		return "svix-id"
	}
	return "webhook-id"
}

// signedParts returns the parts that the scheme names, each once. The time has checks of its own.
func (g *guard) signedParts() []signedPart {
	var parts []signedPart
	add := func(part signedPart) {
		if !slices.ContainsFunc(parts, func(p signedPart) bool { return p.name == part.name }) {
			parts = append(parts, part)
		}
	}
	scheme := &g.sender.Scheme
	for _, found := range placeholder.FindAllStringSubmatch(strings.Join(templates(scheme), " "), -1) {
		kind, name := found[1], found[2]
		switch {
		case kind == "header":
			add(inHeader(name))
		case kind == "query":
			add(inQuery(name))
		case kind == "mercado_pago":
			add(inQuery("data.id"))
			add(inHeader("X-Request-Id"))
		case name == "url", slices.Contains([]string{"url", "url_unescaped", "path_query", "path_query_escaped", "sorted_query", "qsh"}, kind):
			add(inQuery("v"))
		case kind == "form" || kind == "sorted_form" || kind == "php_form" || kind == "vonage_params":
			add(inForm(cmp.Or(name, "v")))
		case kind == "json" && scheme.Document != "":
			add(inDocument(strings.TrimPrefix(scheme.Document, "form:"), name))
		case kind == "json":
			add(inJSON(name))
		case kind == "sns":
			add(inJSON("Message"))
			add(inJSON("Subject"))
		case kind == "signed_headers":
			add(inSignedHeader("X-Contentful-Topic"))
		case kind == "item" || kind == "item_free":
			add(inJSON(strings.TrimPrefix(scheme.Each, "body:") + ".0." + name))
		case kind == "body" || name == "body":
			add(inBody())
		case kind != "timestamp" && kind != "param" && kind != "method" && kind != "secret" && kind != "path":
			add(signedPart{name: found[0]})
		}
	}
	return parts
}

func inHeader(name string) signedPart {
	return signedPart{
		name:  "header " + name,
		set:   func(req *verify.Request, value string) error { req.Header.Set(name, value); return nil },
		again: func(req *verify.Request) { req.Header.Add(name, "b") },
	}
}

func inSignedHeader(name string) signedPart {
	part := inHeader(name)
	part.set = func(req *verify.Request, value string) error {
		req.Header.Set("X-Contentful-Signed-Headers", "x-contentful-signed-headers,x-contentful-timestamp,"+strings.ToLower(name))
		req.Header.Set(name, value)
		return nil
	}
	return part
}

// inBody sets a member, or a field, of a body that is signed as it is.
func inBody() signedPart {
	of := func(req *verify.Request) signedPart {
		switch {
		case strings.HasPrefix(req.Header.Get("Content-Type"), "application/x-www-form-urlencoded"):
			return inForm("odd")
		case bytes.HasPrefix(req.Body, []byte("[")):
			return inJSON("0.odd")
		}
		return inJSON("odd")
	}
	return signedPart{
		name:  "the body",
		set:   func(req *verify.Request, value string) error { return of(req).set(req, value) },
		again: func(req *verify.Request) { of(req).again(req) },
	}
}

func inQuery(name string) signedPart {
	return signedPart{
		name: "query " + name,
		set: func(req *verify.Request, value string) error {
			query, err := url.ParseQuery(req.RawQuery)
			query.Set(name, value)
			req.RawQuery = query.Encode()
			return err
		},
		again: func(req *verify.Request) { req.RawQuery += "&" + url.QueryEscape(name) + "=b" },
	}
}

func inForm(name string) signedPart {
	return signedPart{
		name: "form " + name,
		set: func(req *verify.Request, value string) error {
			form, err := url.ParseQuery(string(req.Body))
			form.Set(name, value)
			req.Body = []byte(form.Encode())
			return err
		},
		again: func(req *verify.Request) { req.Body = append(req.Body, "&"+url.QueryEscape(name)+"=b"...) },
	}
}

// inDocument sets a member of the JSON in a field of a form.
func inDocument(field, path string) signedPart {
	inside := func(req *verify.Request, change func(*verify.Request) error) error {
		form, err := url.ParseQuery(string(req.Body))
		if err != nil {
			return err
		}
		document := verify.Request{Body: []byte(form.Get(field))}
		err = change(&document)
		form.Set(field, string(document.Body))
		req.Body = []byte(form.Encode())
		return err
	}
	part := inJSON(path)
	return signedPart{
		name: part.name,
		set: func(req *verify.Request, value string) error {
			return inside(req, func(document *verify.Request) error { return part.set(document, value) })
		},
	}
}

func inJSON(path string) signedPart {
	member := path[strings.LastIndex(path, ".")+1:]
	return signedPart{
		name: "member " + path,
		set: func(req *verify.Request, value string) error {
			var text bytes.Buffer
			encoder := json.NewEncoder(&text)
			encoder.SetEscapeHTML(false) // as SDKs write it
			err := encoder.Encode(value)
			if err == nil {
				req.Body, err = sample.SetJSON(req.Body, path, bytes.TrimSpace(text.Bytes()))
			}
			return err
		},
		again: func(req *verify.Request) {
			name := strconv.Quote(member) + ":"
			req.Body = bytes.Replace(req.Body, []byte(name), []byte(name+`"b",`+name), 1)
		},
	}
}

// checkValues signs odd values of a part, and checks that both sides judge alike.
func (g *guard) checkValues(part *signedPart) error {
	if part.set == nil {
		return errors.New("no values are known for it: add it to signedParts")
	}
	var all error
	for _, value := range oddValues {
		all = errors.Join(all, g.checkValue(part, value))
	}
	if part.again != nil {
		all = errors.Join(all, g.checkValue(part, oddValue{repeated, "a"}))
	}
	return all
}

const repeated = "repeated"

// checkValue checks one value of a part.
func (g *guard) checkValue(part *signedPart, value oddValue) error {
	header, twice := strings.HasPrefix(part.name, "header "), value.name == repeated
	if header && strings.Contains(value.text, "\n") {
		return nil // no header has a line break
	}
	req, err := g.draft(g.own(), g.now)
	if err == nil {
		err = part.set(req, value.text)
	}
	if err != nil {
		return err
	}
	if twice && !header {
		part.again(req)
	}
	err = g.sender.SignOwn(req, g.key.signing)
	if twice && header && err == nil {
		part.again(req) // the signer has one value; an SDK gets the choice of the server before it
		if err = g.sender.Verifier.Verify(req, []verify.Key{g.key.public}); err == nil {
			return errors.New("hookonce takes a repeated header")
		}
	}
	if err == nil {
		r := plain(req)
		err = g.ours(r, g.key.public)
		if theirs := g.theirs(r, &g.key.text); (err == nil) != (theirs == nil) {
			err = fmt.Errorf("hookonce says %w, %s says %v\n%s", cmp.Or(err, errAccepted), g.subject.SDK, theirs, show(r))
		} else {
			return nil
		}
	}
	kind := "value " + value.name + " in " + part.name
	switch {
	case stricter(value, err):
		return nil
	case g.subject.Unchecked[kind] != "":
		g.accepted[kind] = true
		return nil
	}
	return fmt.Errorf("%s: %w", kind, err)
}

var errAccepted = errors.New("that it is valid")

// stricter reports whether hookonce alone refuses a value for a reason of its own: without a text, the part is missing; of two
// texts, receivers do not read the same; and with the separator inside, two requests have the same signed content.
func stricter(value oddValue, err error) bool {
	switch {
	case value.text == "":
		return errors.Is(err, verify.ErrMissing)
	case value.name == repeated:
		return errors.Is(err, verify.ErrRepeated) || errors.Is(err, verify.ErrMalformed)
	}
	return errors.Is(err, verify.ErrMalformed) && slices.ContainsFunc(
		[]string{"holds the character that ends it", "the id holds a '.'", "has a line break", "must be escaped"},
		func(reason string) bool { return strings.Contains(err.Error(), reason) },
	)
}

// TestValuesWithoutSDK checks that hookonce takes odd values from senders that no SDK judges.
func TestValuesWithoutSDK(t *testing.T) {
	for _, name := range provider.Names() {
		spec, err := provider.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, scheme := range spec.Schemes {
			judged := slices.ContainsFunc(subjects, func(s *providers.Subject) bool {
				return s.Provider == string(name) && (s.Scheme == scheme.ID || s.Scheme == "" && scheme.ID == spec.Schemes[0].ID)
			})
			if judged || len(templates(&scheme)) == 0 {
				continue
			}
			t.Run(string(name)+"/"+scheme.ID, func(t *testing.T) {
				s := &providers.Subject{Provider: string(name), Scheme: scheme.ID, SDK: "hookonce itself", Params: map[string]string{}}
				for _, p := range scheme.Params {
					s.Params[p.Name] = "param"
					for _, allowed := range slices.Sorted(maps.Keys(p.Sets)) {
						s.Params[p.Name] = allowed
					}
				}
				g, err := newGuard(s, nil)
				if err != nil {
					t.Fatal(err)
				}
				s.Verify = func(*providers.Request, *providers.Key) error { return nil }
				for _, part := range g.signedParts() {
					if err := g.checkValues(&part); err != nil {
						t.Errorf("%s: %v", part.name, err)
					}
				}
			})
		}
	}
}
