package hookadmin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// listPage is the part that the pages of all listings share.
type listPage struct {
	path   string // of the page, without the first slash
	Root   string
	values url.Values // parameters, as given
	asked  url.Values // set by listed: the parameters as the API takes them

	Action   string      // address of the filter form
	Fields   []formField // of the filter form
	Fault    string      // the fault of the parameters, or ""
	Away     string      // why there are no rows although the parameters are right, or ""
	Kept     string      // with Away: link to the same listing without filters, whose rows are kept, or ""
	Stale    staleness   // of the rows
	Chips    []chip
	Spans    []spanLink
	Exports  []link
	Pager    pager
	Searched string // how far the rows were searched, if not to the end
	Empty    *empty // shown instead of the rows
}

// formField is a field of the form of filters.
type formField struct {
	Name, Label, Value string
	Options            []string
	Choice             bool   // there are options, or a field for texts cannot show Value
	Hint               string // an example
	Other              string // Value as it is shown, if it is none of Options
	Wrong              bool   // the fault is here
}

// fieldsSet returns the named values that are set, in the order of the names.
func fieldsSet(values url.Values, names ...string) []formField {
	var set []formField
	for _, name := range names {
		if v := values.Get(name); v != "" {
			set = append(set, formField{Name: name, Value: v})
		}
	}
	return set
}

// startList returns the part of the page at path that depends on its parameters alone.
func startList(r *http.Request, values url.Values, path string, known []string) *listPage {
	l := &listPage{path: path, Root: rootFrom(r.URL.EscapedPath()), values: values}
	l.Action = l.Root + path
	for _, name := range known {
		if v := values.Get(name); v != "" && name != "cursor" && name != "limit" {
			l.Chips = append(l.Chips, chip{Name: name, Value: newText(v, 60).Short, Remove: l.With(name, "")})
		}
	}
	for _, s := range []struct{ since, text string }{{"15m", "15 m"}, {"1h", "1 h"}, {"24h", "24 h"}, {"7d", "7 d"}} {
		current := values.Get("since") == s.since && values.Get("until") == ""
		l.Spans = append(l.Spans, spanLink{link{l.With("since", s.since, "until", ""), s.text}, current})
	}
	return l
}

// With returns a link to the first page of the listing, with some parameters set: name, value, name,
// value. An empty value removes its parameter.
func (l *listPage) With(changes ...string) string {
	values := maps.Clone(l.values)
	values.Del("cursor")
	values.Del("refresh")
	return l.Root + l.path + queryOf(values, changes...)
}

// older returns the link to the page after this one, or "" without one.
func (l *listPage) older(next string) string {
	if next == "" {
		return ""
	}
	return l.Root + l.path + queryOf(maps.Clone(l.values), "cursor", next)
}

// queryOf returns values with some of them changed, as the query of a link. It changes values.
func queryOf(values url.Values, changes ...string) string {
	for i := 0; i < len(changes); i += 2 {
		if changes[i+1] == "" {
			values.Del(changes[i])
		} else {
			values.Set(changes[i], changes[i+1])
		}
	}
	for name := range values {
		if values.Get(name) == "" {
			values.Del(name)
		}
	}
	if len(values) == 0 {
		return ""
	}
	return "?" + values.Encode()
}

// page sets the links to other pages. next is the cursor of the following one.
func (l *listPage) page(next string) {
	l.Pager.Next = l.older(next)
	if l.values.Get("cursor") != "" {
		l.Pager.First = l.With()
	}
}

// searchedUntil sets how far the database looked for rows, if it met a bound.
func (l *listPage) searchedUntil(at Time) {
	if m := momentOf(at); m != nil {
		l.Searched = "Searched back to " + m.Date() + " " + m.Clock() + ". “Older” continues the search."
	}
}

// field adds a field to the form of filters.
func (l *listPage) field(name, label, hint string, options ...string) {
	value := l.values.Get(name)
	f := formField{Name: name, Label: label, Hint: hint, Value: value, Options: options}
	if !slices.Contains(options, value) {
		f.Other = visible(value)
	}
	f.Choice = options != nil || visible(value) != value
	f.Wrong = strings.HasPrefix(l.Fault, name+":")
	l.Fields = append(l.Fields, f)
}

// spanFields adds the fields that select a span of time.
func (l *listPage) spanFields() {
	l.field("since", "Since", "2h or 2026-01-31 08:00")
	l.field("until", "Until", "")
	l.field("tz", "Time zone", "Europe/Berlin")
}

// filtered reports whether a parameter narrows the listing.
func (l *listPage) filtered() bool { return len(l.Chips) > 0 }

// listed returns the rows that the parameters of r select, by find, and the status of the page: 400 for
// wrong parameters. If the database does not answer, they are the rows that the same page showed last, and l
// says so; without any the status is 503, and l says why.
func listed[Filter, Page, Shape any](
	h *handling, r *http.Request, l *listPage,
	parse func(url.Values, time.Time) (*Filter, error),
	find func(context.Context, *Filter) (*Page, error),
	shape func(*Page) *Shape,
) (*Shape, int) {
	values, err := pageValues(l.values)
	var filter *Filter
	if err == nil {
		filter, err = parse(values, time.Now())
	}
	if err != nil {
		l.Fault = visible(err.Error())
		return nil, http.StatusBadRequest
	}
	l.asked = values
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	page, stale, err := orKept(h.kept, l.keptAs(l.values), func() (*Page, error) { return find(ctx, filter) })
	if err != nil {
		h.logAway(r, "listing", err)
	}
	if page == nil {
		l.Away = awayText(err) + " So there are no rows."
		if h.kept.of(l.keptAs(nil)).content != nil {
			l.Kept = l.Root + l.path
		}
		return nil, http.StatusServiceUnavailable
	}
	l.Stale = stale
	return shape(page), http.StatusOK
}

// asIs is the shape of rows that the API does not have in this form.
func asIs[Page any](page *Page) *Page { return page }

// anyOf returns whether parameters of a page select a row, for whyEmpty.
func anyOf[Filter, Page any](
	parse func(url.Values, time.Time) (*Filter, error),
	find func(context.Context, *Filter) (*Page, error),
	count func(*Page) int,
) func(context.Context, url.Values) (bool, error) {
	return func(ctx context.Context, values url.Values) (bool, error) {
		values, err := pageValues(values)
		if err != nil {
			return false, err
		}
		values.Set("limit", "1")
		filter, err := parse(values, time.Now())
		if err != nil {
			return false, err
		}
		found, err := find(ctx, filter)
		return err == nil && count(found) > 0, err
	}
}

// keptAs returns the key of a page of the listing in keptPages: "" for one after the first.
func (l *listPage) keptAs(values url.Values) string {
	if values.Get("cursor") != "" {
		return ""
	}
	values = maps.Clone(values)
	if values != nil {
		values.Del("refresh")
	}
	return l.path + queryOf(values)
}

// orRetry returns how a page of a listing stays fresh: while the database is away, it tries again.
func (l *listPage) orRetry(usual *live) *live {
	if l.Away != "" || l.Stale.Known() {
		return &live{Every: 10}
	}
	return usual
}

// pageValues returns the parameters as the parsers of the API take them: without those that only
// pages have, and with since and until in UTC. A time without a zone is in that of the parameter tz.
func pageValues(given url.Values) (url.Values, error) {
	values := maps.Clone(given)
	zone, err := parseZone(values)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"since", "until"} {
		s := strings.TrimSpace(values.Get(name))
		for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02 15:04:05", time.DateOnly} {
			if t, err := time.ParseInLocation(layout, s, zone); err == nil && len(values[name]) == 1 {
				values.Set(name, t.UTC().Format(time.RFC3339))
			}
		}
	}
	if _, err := parseRefresh(values.Get("refresh")); err != nil {
		return nil, err
	}
	values.Del("tz")
	values.Del("refresh")
	return values, nil
}

// parseZone reads the parameter tz: UTC, an offset such as +02:00, or a name such as Europe/Berlin.
func parseZone(values url.Values) (*time.Location, error) {
	name := values.Get("tz")
	switch {
	case len(values["tz"]) > 1:
		return nil, &ParameterError{"tz", "given more than once"}
	case badText("tz", name) != "":
		return nil, &ParameterError{"tz", badText("tz", name)}
	}
	if t, err := time.Parse("-07:00", name); err == nil {
		return t.Location(), nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, &ParameterError{"tz", fmt.Sprintf("%.100q is not a time zone that this machine knows; use UTC, an offset such as +02:00, or a name such as Europe/Berlin", name)}
	}
	return zone, nil
}

// Bounds of the search for the filter that empties a listing.
const (
	probesTimeout = 2 * time.Second
	probeTimeout  = 500 * time.Millisecond
)

// whyEmpty says which filter empties a listing: some looks for rows with other parameters.
func (l *listPage) whyEmpty(r *http.Request, things string, some func(context.Context, url.Values) (bool, error)) *empty {
	out := &empty{Title: "No " + things + " match these filters."}
	if len(l.Chips) == 1 {
		out.Text = "Remove the filter to see all " + things + "."
		out.Link = &link{l.With(l.Chips[0].Name, ""), "Remove " + l.Chips[0].Name}
		return out
	}
	ctx, cancel := context.WithTimeout(r.Context(), probesTimeout)
	defer cancel()
	var guilty []string
	for _, c := range l.Chips {
		values := maps.Clone(l.values)
		values.Del(c.Name)
		values.Del("cursor")
		if found, err := probeFor(ctx, values, some); c.Name != "tz" && err == nil && found {
			guilty = append(guilty, "without "+c.Name)
			out.Link = cmp.Or(out.Link, &link{l.With(c.Name, ""), "Remove " + c.Name})
		}
		if ctx.Err() != nil {
			break
		}
	}
	if len(guilty) > 0 {
		out.Text = "There are some " + strings.Join(guilty, ", or ") + "."
		return out
	}
	out.Text = "One removed filter is not enough, or the search took too long."
	out.Link = &link{l.Root + l.path, "Remove all filters"}
	return out
}

func probeFor(ctx context.Context, values url.Values, some func(context.Context, url.Values) (bool, error)) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return some(ctx, values)
}

// cell is a value of a row that links to the listing with that value as a filter.
type cell struct {
	text
	Href string
}

// namedCell returns the cell of a source or a destination, which links to its page.
func namedCell(root, section, name string, room int) cell {
	return cell{newText(name, room), root + section + "/" + url.PathEscape(name)}
}

// Cell returns the cell of a value from outside. An empty one has no link.
func (l *listPage) Cell(name, value string, room int) cell {
	if value == "" {
		return cell{}
	}
	return cell{newText(value, room), l.With(name, value)}
}

// eventLink returns the link to the page of an event. Browsers remove the ids "." and ".." from a
// path, so those are parameters.
func eventLink(root, source, id string) string {
	if id == "." || id == ".." {
		return root + "event" + queryOf(url.Values{"source": {source}, "id": {id}})
	}
	return root + "events/" + url.PathEscape(source) + "/" + url.PathEscape(id)
}
