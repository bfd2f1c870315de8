package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/verify"
)

// List says how the API of a provider lists the events of its webhooks. A path such as data.object leads through JSON
// objects; "" is the document itself. In an array, 0 is the first element, and rel=next the one whose member rel is "next".
type List struct {
	Source string `json:"source"` // URL of the documentation, or the package and its version, that shows all of this
	// URL is the address of the first page. {name} stands for a parameter.
	URL    string            `json:"url"`
	Params []verify.Param    `json:"params,omitempty"` // all must be set
	Header map[string]string `json:"header,omitempty"` // of every request
	Auth   string            `json:"auth,omitempty"`   // "": the key is a Bearer token; AuthBasic
	// Token is the address that exchanges the key, ID:SECRET, for a Bearer token (the grant client_credentials of OAuth). ""
	// if the key is used as Auth says.
	Token string `json:"token,omitempty"`
	// Request is the JSON object of the requests for pages, which are POST then. {since} stands for the time of the oldest
	// event in RFC 3339, and Cursor is a member of it. "" for GET.
	Request string `json:"request,omitempty"`
	// Since is the query parameter for the time of the oldest event, in Unix seconds, or in RFC 3339 with SinceText. ""
	// if there is none: without Request, pages are read then until one has only older events, so they must come newest first.
	Since     string `json:"since,omitempty"`
	SinceText bool   `json:"since_text,omitempty"`
	// Cursor is the query parameter that leads to the next page. With More it is the ID of the last item, while the
	// boolean at the path More is true. With Next it is the text at that path, while there is one. With neither it
	// is taken from the Link header with rel="next".
	Cursor string `json:"cursor,omitempty"`
	More   string `json:"more,omitempty"`
	Next   string `json:"next,omitempty"`
	// NextQuery says that the address of the next page stands at Next: its query is used, without Cursor.
	NextQuery bool   `json:"next_query,omitempty"`
	Items     string `json:"items,omitempty"` // the path of the array
	// Omits says that an empty page has no array.
	Omits bool   `json:"omits,omitempty"`
	ID    string `json:"id"`   // the path of an item's own id
	Time  string `json:"time"` // the path of its time: Unix seconds, or RFC 3339 (in UTC without a zone)
	// EventHeader maps headers of the webhook, which hold facts of the event, to paths in an item.
	EventHeader map[string]string `json:"event_header,omitempty"`
	// Detail is the address of one item, with {item} for its ID. "" if the item itself is the body of the webhook.
	Detail string `json:"detail,omitempty"`
	Body   string `json:"body,omitempty"`  // the path of the webhook's body in the item or its detail; a text there is the body itself
	Wrap   string `json:"wrap,omitempty"`  // makes the body of the webhook out of what Body leads to, for which {item} stands
	Keeps  string `json:"keeps,omitempty"` // how long the API lists an event, for users
	// Rate is how many requests a minute the API allows; 0 if that is unknown, or more than 600. RateSource says where that is
	// documented. At most half of them are made.
	Rate       int    `json:"rate,omitempty"`
	RateSource string `json:"rate_source,omitempty"`
	Note       string `json:"note,omitempty"` // the events that the list holds, for users
}

// AuthBasic says that the key is the user name of basic authentication, without a password.
const AuthBasic = "basic"

var listParam = regexp.MustCompile(`\{([a-z_]+)\}`)

// Validate reports faults of the data.
func (l *List) Validate() error {
	for _, field := range [][2]string{{"source", l.Source}, {"url", l.URL}, {"cursor or list.next_query", l.Cursor + l.Next}, {"id", l.ID}, {"time", l.Time}} {
		if field[1] == "" {
			return fmt.Errorf("list.%s is missing", field[0])
		}
	}
	names := []string{}
	for _, p := range l.Params {
		names = append(names, p.Name)
	}
	for _, raw := range []string{l.URL, l.Detail} {
		for _, m := range listParam.FindAllStringSubmatch(raw, -1) {
			if m[1] != "item" && !slices.Contains(names, m[1]) {
				return fmt.Errorf("list names the parameter %q, which list.params lacks", m[1])
			}
		}
	}
	switch {
	case l.Auth != "" && l.Auth != AuthBasic:
		return fmt.Errorf("list.auth is %q, want %q or nothing", l.Auth, AuthBasic)
	case l.Rate < 0 || l.Rate > 600 || (l.Rate == 0) != (l.RateSource == ""):
		return errors.New("list.rate must be from 1 to 600, with its list.rate_source")
	case l.More != "" && l.Next != "":
		return errors.New("list has more and next: one of them leads to the next page")
	case l.NextQuery != (l.Cursor == "") || l.NextQuery && (l.Next == "" || l.Request != ""):
		return errors.New("list has either cursor, or next_query with next and without request")
	case l.Auth != "" && l.Token != "":
		return errors.New("list has auth and token: one of them says how the key is used")
	case l.Request != "" && (l.Since != "" || !json.Valid([]byte(l.Request)) || !strings.Contains(l.Request, SincePlace)):
		return fmt.Errorf("list.request must be JSON with %s, and takes the place of list.since", SincePlace)
	case l.Wrap != "" && strings.Count(l.Wrap, wrapped) != 1:
		return fmt.Errorf("list.wrap must hold %s once", wrapped)
	}
	u, err := url.Parse(listParam.ReplaceAllString(l.URL, "x"))
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return errors.New("list.url must be an https URL")
	}
	if l.Token != "" && !strings.HasPrefix(l.Token, "https://"+u.Host+"/") {
		return errors.New("list.token must be on the host of list.url")
	}
	if l.Detail != "" && (!strings.HasPrefix(l.Detail, "https://"+u.Host+"/") || !strings.Contains(l.Detail, "{item}")) {
		return errors.New("list.detail must be on the host of list.url, and hold {item}")
	}
	return nil
}

const wrapped = "{item}"

// SincePlace stands in List.Request for the time of the oldest event.
const SincePlace = "{since}"

// Wrapped returns the body of the webhook, made of what Body leads to; nil for nil.
func (l *List) Wrapped(item []byte) []byte {
	if l.Wrap == "" || item == nil {
		return item
	}
	before, after, _ := strings.Cut(l.Wrap, wrapped)
	return slices.Concat([]byte(before), item, []byte(after))
}

// Fill returns the address raw, which is URL or Detail, with its parameters.
func (l *List) Fill(raw string, params map[string]string) string {
	return listParam.ReplaceAllStringFunc(raw, func(name string) string {
		return url.PathEscape(params[strings.Trim(name, "{}")])
	})
}

// CheckParams reports missing and unknown parameters, each as a *verify.FieldError of
// the setting reconcile.params.
func (l *List) CheckParams(params map[string]string) error {
	var faults []error
	known := map[string]bool{}
	for _, p := range l.Params {
		known[p.Name] = true
		if value := strings.TrimSpace(params[p.Name]); value == "" || value == "." || value == ".." {
			faults = append(faults, &verify.FieldError{Field: "reconcile.params." + p.Name, Problem: "it is missing: " + p.About})
		}
	}
	for name := range params {
		if !known[name] {
			faults = append(faults, &verify.FieldError{Field: "reconcile.params." + name, Problem: "the provider's list takes no parameter of this name"})
		}
	}
	return errors.Join(faults...)
}
