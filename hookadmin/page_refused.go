package hookadmin

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/tell"
)

var refusedPageParameters = []string{"source", "reason", "remote", "id", "since", "until", "tz", "limit", "cursor", "refresh"}

var refusedGroupPageParameters = []string{"source", "reason", "remote", "since", "until", "tz", "refresh"}

// refusedPage is the content of refused.html.
type refusedPage struct {
	*listPage
	Rows   []RefusedRequest
	Wrong  []wrongSecret
	Groups string // link to the same requests by address and reason
	NoLook bool   // the figures that tell wrong secrets could not be read
}

// wrongSecret is a source whose signed requests are all refused.
type wrongSecret struct {
	Source   string
	Provider string
	Refused  string
}

func (h *handling) showRefusedPage(w http.ResponseWriter, r *http.Request) {
	values, ok := h.query(w, r)
	if !ok {
		return
	}
	now := time.Now()
	l := startList(r, values, "refused", refusedPageParameters)
	found, status := listed(h, r, l, ParseRefusedFilter, h.engine.Operator().Refused, newRefusedPage)
	h.refusedFields(l)
	content := &refusedPage{listPage: l, Groups: l.Root + "refused/groups" + queryOf(maps.Clone(values), "id", "", "cursor", "", "limit", "", "refresh", "")}
	if found != nil {
		content.Rows = found.Refused
	}
	if found != nil && !l.Stale.Known() {
		l.page(found.Next)
		if len(content.Rows) == 0 {
			l.Empty = h.noneRefused(r, l)
		}
		var err error
		if content.Wrong, err = h.wrongSecrets(r.Context(), found.Refused, now); err != nil {
			content.NoLook = true
			h.logAway(r, "looking for wrong secrets", err)
		}
	}
	p := &page{Title: "Refused requests", Content: content, Made: l.Stale.orNow(now)}
	for i := range content.Rows {
		if entry := tell.EntryOf(content.Rows[i].Reason); !slices.Contains(p.See, entry) {
			p.See = append(p.See, entry)
		}
	}
	if status == http.StatusOK && values.Get("cursor") == "" {
		p.Live = &live{On: "refused", Source: values.Get("source")}
	}
	p.Live = l.orRetry(p.Live)
	h.render(w, r, status, "refused.html", p)
}

// refusedFields adds the filters of refused requests.
func (h *handler) refusedFields(l *listPage) {
	l.field("source", "Source", "", h.sources()...)
	l.field("reason", "Reason", "", tell.Kept()...)
	l.field("remote", "Remote address", "203.0.113.9")
	if l.path == "refused" {
		l.field("id", "Error id", "as in the log")
	}
	l.spanFields()
}

// refusedBody returns the view of the kept part of a body; nil if no part is kept.
func refusedBody(q *RefusedRequest) *bodyView {
	raw := bytesOf(q.Body, q.BodyBase64)
	if len(raw) == 0 {
		return nil
	}
	size := int64(len(raw))
	if q.BodySize != nil {
		size = *q.BodySize
	}
	return newSample(raw, size)
}

// newSample returns the view of the beginning of a body of the given size.
func newSample(raw []byte, size int64) *bodyView {
	shown := raw
	for range utf8.UTFMax - 1 {
		if last, n := utf8.DecodeLastRune(shown); int64(len(raw)) == size || last != utf8.RuneError || n != 1 {
			break
		}
		shown = shown[:len(shown)-1]
	}
	v := newBodyView(shown, "", bodyRaw)
	v.Size = sizeInWords(size)
	if int64(len(raw)) < size {
		v.Cut = "These are the first " + sizeInWords(int64(len(raw))) + " of " + v.Size + "; the rest was not kept."
	}
	return v
}

// headerRow is one header line.
type headerRow struct {
	Name  string
	Value text
}

func headerRows(byName map[string][]string) []headerRow {
	var rows []headerRow
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		for _, value := range byName[name] {
			rows = append(rows, headerRow{visible(name), newText(value, 200)})
		}
	}
	return rows
}

func (h *handler) noneRefused(r *http.Request, l *listPage) *empty {
	if !l.filtered() {
		return &empty{Title: "No refused requests.", Text: "Requests that are answered 4xx or 503 show up here within a second, with the reason."}
	}
	return l.whyEmpty(r, "refused requests", anyOf(ParseRefusedFilter, h.engine.Operator().Refused, func(p *driver.RefusedPage) int { return len(p.Requests) }))
}

const (
	// secretSpan is how far back a source must have no right signature, and fewRefusals how many wrong
	// ones, before the page says that its secret is probably wrong.
	secretSpan  = 24 * time.Hour
	fewRefusals = 3
	// maxSecrets bounds the sources that one page looks at.
	maxSecrets = 10
)

// wrongSecrets returns those sources of the rows that got only wrong signatures in the last day.
func (h *handler) wrongSecrets(ctx context.Context, rows []RefusedRequest, now time.Time) ([]wrongSecret, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	looked := make(map[string]bool)
	for i := range rows {
		if q := &rows[i]; q.Reason == signatureWrong && len(looked) < maxSecrets {
			looked[q.Source] = true
		}
	}
	var all []wrongSecret
	for _, s := range h.engine.Operator().Sources() {
		if !looked[s.Name] {
			continue
		}
		wrong, err := h.sumOf(ctx, driver.FigureRefusals, s.Name, now, signatureWrong)
		if err != nil {
			return nil, err
		}
		right, err := h.sumOf(ctx, driver.FigureDeliveries, s.Name, now, "ok", "duplicate", "reopened", "malformed", "failed")
		if err != nil {
			return nil, err
		}
		if wrong >= fewRefusals && right == 0 {
			all = append(all, wrongSecret{s.Name, specOf(s.Provider).Title, say.Count(wrong, "request")})
		}
	}
	return all, nil
}

// signatureWrong is the reason of tell.Reasons for a wrong signature.
const signatureWrong = "signature_wrong"

// sumOf sums the figures of a source in the last day that have one of the labels.
func (h *handler) sumOf(ctx context.Context, of driver.FigureKind, source string, now time.Time, labels ...string) (int64, error) {
	points, err := h.store.Series(ctx, &driver.SeriesFilter{
		Of: of, Resolution: driver.ByHour, Name: source, Since: now.Add(-secretSpan), Until: now.Add(time.Hour), Limit: 1000,
	})
	var sum int64
	for i := range points {
		if slices.Contains(labels, points[i].Label) {
			sum += points[i].N
		}
	}
	return sum, err
}
