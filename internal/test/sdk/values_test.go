package sdk

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/internal/sample"
	"github.com/hookonce/hookonce/verify"
)

// oddValues are texts for a signed part of a request: with separators, in both cases, empty, long.
var oddValues = []string{
	"ORDTST01M2V0ABC", "ordtst01m2v0abc", "", "0", "-1.50", "a:b", "a;b", "a|b", "a.b", "a,b", "a=b&c=d", "a+b c", "a%20b", "a/b?c#d", `a"b\c`,
	"Größe ÄÖ 世界", strings.Repeat("Ab1-", 500),
}

// signedPart is a part of a request whose text the sender chooses and the signature covers.
type signedPart struct {
	name string
	set  func(req *verify.Request, value string) error
}

var placeholder = regexp.MustCompile(`\{(\w+)(?::([^}]*))?\}`)

// signedParts returns the parts that the scheme's content names. The time has checks of its own.
func (g *guard) signedParts() []signedPart {
	var parts []signedPart
	add := func(name string, set func(*verify.Request, string) error) {
		parts = append(parts, signedPart{name, set})
	}
	scheme := &g.sender.Scheme
	for _, found := range placeholder.FindAllStringSubmatch(scheme.Content, -1) {
		kind, name := found[1], found[2]
		switch kind {
		case "header":
			add(found[0], func(req *verify.Request, value string) error { req.Header.Set(name, value); return nil })
		case "query":
			add(found[0], inQuery(name))
		case "mercado_pago":
			add("data.id", inQuery("data.id"))
			add("x-request-id", func(req *verify.Request, value string) error { req.Header.Set("X-Request-Id", value); return nil })
		case "url", "url_unescaped", "path_query", "path_query_escaped", "sorted_query", "qsh":
			add("the query", inQuery("v"))
			add("a repeated parameter", func(req *verify.Request, value string) error {
				req.RawQuery = url.Values{"v": {value, "b", value}}.Encode()
				return nil
			})
		case "form", "sorted_form", "php_form":
			if name == "" {
				name = "v"
			}
			add(found[0], inForm(name))
		case "json":
			add(found[0], inJSON(name))
		case "item", "item_free":
			add(found[0], inJSON(strings.TrimPrefix(scheme.Each, "body:")+".0."+name))
		}
	}
	return parts
}

func inQuery(name string) func(*verify.Request, string) error {
	return func(req *verify.Request, value string) error {
		query, err := url.ParseQuery(req.RawQuery)
		query.Set(name, value)
		req.RawQuery = query.Encode()
		return err
	}
}

func inForm(name string) func(*verify.Request, string) error {
	return func(req *verify.Request, value string) error {
		form, err := url.ParseQuery(string(req.Body))
		form.Set(name, value)
		req.Body = []byte(form.Encode())
		return err
	}
}

func inJSON(path string) func(*verify.Request, string) error {
	return func(req *verify.Request, value string) error {
		text, err := json.Marshal(value)
		if err == nil {
			req.Body, err = sample.SetJSON(req.Body, path, text)
		}
		return err
	}
}

// checkValues signs odd values of a part, and checks that both sides judge alike. Some are refused as
// malformed here, because a separator in them makes two contents alike.
func (g *guard) checkValues(part *signedPart) error {
	var all error
	for _, value := range oddValues {
		req, err := g.draft(g.own(), g.now)
		if err == nil {
			err = part.set(req, value)
		}
		if err != nil {
			return err
		}
		if err := g.sender.SignOwn(req, g.key.signing); err != nil {
			continue // the sender cannot send it
		}
		r := plain(req)
		ours, theirs := g.ours(r, g.key.public), g.theirs(r, &g.key.text)
		strict := slices.ContainsFunc([]error{verify.ErrMalformed, verify.ErrMissing, verify.ErrRepeated}, func(e error) bool { return errors.Is(ours, e) })
		if (ours == nil) != (theirs == nil) && !strict {
			all = errors.Join(all, fmt.Errorf("%.60q: hookonce says %v, %s says %v\n%s", value, ours, g.subject.SDK, theirs, show(r)))
		}
	}
	if g.subject.Unchecked[oddPart] != "" && all != nil {
		g.accepted[oddPart] = true
		return nil
	}
	return all
}

// oddPart names the check of odd values, and its entry in Subject.Unchecked.
const oddPart = "values"
