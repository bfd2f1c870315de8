package hookadmin

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/problem"
	"github.com/hookonce/hookonce/internal/shown"
)

const (
	// maxExport is the most events of one export.
	maxExport = 10_000
	// exportTime is how long an export looks for events.
	exportTime = 45 * time.Second
	// answerTimeout is the time for a client to read an answer, or a part of an export.
	answerTimeout = 10 * time.Second
	// nextTrailer is the trailer with the cursor to continue an export; "" if there are no more events.
	nextTrailer = "Hookonce-Next"
)

func (h *handling) exportNDJSON(w http.ResponseWriter, r *http.Request) {
	h.export(w, r, "application/x-ndjson", "events.ndjson", ndjsonWriter{w})
}

func (h *handling) exportCSV(w http.ResponseWriter, r *http.Request) {
	h.export(w, r, "text/csv; charset=utf-8", "events.csv", newCSVWriter(w))
}

// eventWriter writes events in the form of an export.
type eventWriter interface {
	// begin writes the part before the first event.
	begin() error
	// write writes a page of events, and flushes its own buffer.
	write(events []Event) error
}

// export streams the events that the parameters of r select. The first page comes before the header of
// the answer, so that its errors have their usual status. A later error breaks the connection.
func (h *handling) export(w http.ResponseWriter, r *http.Request, contentType, name string, to eventWriter) {
	values, ok := h.query(w, r)
	if !ok {
		return
	}
	filter, left, err := h.parseExport(values, time.Now())
	if err != nil {
		h.fail(w, r, http.StatusBadRequest, err.Error(), nil)
		return
	}
	ends := time.Now().Add(exportTime)
	h.writeCounts(r.Context())
	page, err := h.exportPage(r.Context(), filter, left)
	if err != nil {
		h.failStore(w, r, err)
		return
	}
	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	header.Set("Trailer", nextTrailer)
	if r.Method == http.MethodHead {
		return
	}
	err = to.begin()
	for err == nil {
		// Where the server does not support this, it fails and the server's own deadline holds.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout))
		if err = to.write(NewEventPage(page).Events); err != nil {
			break
		}
		left -= len(page.Events)
		filter.After = page.Next
		if left == 0 || page.Next.IsZero() || time.Now().After(ends) {
			header.Set(nextTrailer, page.Next.String())
			return
		}
		page, err = h.exportPage(r.Context(), filter, left)
	}
	h.logger.WarnContext(r.Context(), "an export ended early; its client sees a broken connection", "error", err)
	panic(http.ErrAbortHandler)
}

// parseExport reads the parameters of an export, as ParseFilter does, and the most events of it.
func (h *handler) parseExport(values url.Values, now time.Time) (*driver.EventFilter, int, error) {
	if err := checkParameters(values, eventParameters); err != nil {
		return nil, 0, err
	}
	most, err := parseLimit(values.Get("limit"), maxExport, maxExport)
	if err != nil {
		return nil, 0, err
	}
	values.Del("limit")
	filter, err := h.parseFilter(values, now)
	return filter, most, err
}

func (h *handler) exportPage(ctx context.Context, filter *driver.EventFilter, most int) (*driver.EventPage, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	filter.Limit = min(most, driver.MaxLimit)
	page, err := h.store.Events(ctx, filter)
	if err != nil {
		return nil, fmt.Errorf("exporting events: %w", err)
	}
	return page, nil
}

// ndjsonWriter writes one object of JSON per line.
type ndjsonWriter struct{ to io.Writer }

func (ndjsonWriter) begin() error { return nil }

func (n ndjsonWriter) write(events []Event) error {
	var lines []byte
	for i := range events {
		lines = append(lines, shown.JSON(problem.JSON(&events[i]))...)
	}
	_, err := n.to.Write(lines)
	return err
}

// csvWriter writes one line per event, in the form of RFC 4180.
type csvWriter struct{ to *csv.Writer }

func newCSVWriter(to io.Writer) csvWriter {
	w := csv.NewWriter(to)
	w.UseCRLF = true
	return csvWriter{w}
}

// begin writes the names of the columns: the keys of an event.
func (c csvWriter) begin() error {
	var names []string
	for field := range reflect.TypeFor[Event]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return c.to.Write(names)
}

func (c csvWriter) write(events []Event) error {
	for i := range events {
		var cells []string
		for _, value := range reflect.ValueOf(events[i]).Fields() {
			cells = append(cells, csvCell(fmt.Sprint(value)))
		}
		if err := c.to.Write(cells); err != nil {
			return err
		}
	}
	c.to.Flush()
	return c.to.Error()
}

// formulaRunes begin a formula in a spreadsheet; the last four are their full-width forms.
const formulaRunes = "=+-@\uff1d\uff0b\uff0d\uff20"

// csvCell returns a text from outside as a cell that a spreadsheet shows as text. A cell that it could
// take for a formula begins with an apostrophe. Hidden characters become spaces, so that an event
// is one line, and harmless on a terminal.
func csvCell(text string) string {
	text = strings.Map(func(r rune) rune {
		if shown.Hidden(r) {
			return ' '
		}
		return r
	}, text)
	if first, _ := utf8.DecodeRuneInString(strings.TrimLeftFunc(text, unicode.IsSpace)); strings.ContainsRune(formulaRunes, first) {
		return "'" + text
	}
	return text
}
