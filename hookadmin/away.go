package hookadmin

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"syscall"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// awayText says why the database has no answer, for people. It names no host and no user.
func awayText(err error) string {
	dial, dialled := errors.AsType[*net.OpError](err)
	_, unknown := errors.AsType[*net.DNSError](err)
	switch {
	case errors.Is(err, driver.ErrSearching):
		return "Other searches for a text are running. Try again in a few seconds."
	case unknown:
		return "The database cannot be reached: its host name is not known."
	case dialled && dial.Op == "dial" && errors.Is(err, syscall.ECONNREFUSED):
		return "The database cannot be reached: the connection was refused."
	case dialled && dial.Op == "dial" && dial.Timeout():
		return "The database cannot be reached: its host did not answer in time."
	case dialled && dial.Op == "dial":
		return "The database cannot be reached."
	case errors.Is(err, driver.ErrLockTimeout):
		return "Another session of the database held a lock for too long."
	case errors.Is(err, driver.ErrSerialization):
		return "Another session of the database was in the way."
	case errors.Is(err, driver.ErrFull):
		return "The disk of the database is full."
	case errors.Is(err, driver.ErrReadOnly):
		return "The database is read-only or a standby."
	case isContextError(err), errors.Is(err, driver.ErrTimedOut):
		return "The database did not answer in time."
	case errors.Is(err, driver.ErrSchema):
		return "The database schema does not match this version."
	case passes(err):
		return "The database cannot be used now."
	}
	return "An internal error occurred."
}

// staleness says of a part of a page when it was read, if that is not now, and why.
type staleness struct {
	At  Time   // zero for a present part, and for one that was never read
	Why string // see awayText; "" for a present part
}

// Known reports whether it is known when the part was read.
func (s staleness) Known() bool { return !time.Time(s.At).IsZero() }

// orNow returns when a part was read: at the given time unless it is a stale one.
func (s staleness) orNow(now time.Time) Time {
	if s.Known() {
		return s.At
	}
	return Time(now)
}

// maxKept bounds the pages that are kept, of events and of others, and keptRows the rows of each list on them.
const (
	maxKept  = 64
	keptRows = 50
)

// keptPages holds the last content of pages, which they show while the database is away. It holds no
// bodies, no headers and no error texts: they may be redacted or past their retention by then.
type keptPages struct {
	mu   sync.Mutex
	last map[string]keptPage // by path and query; none by ""
}

type keptPage struct {
	content any
	at      time.Time
}

func newKeptPages() *keptPages { return &keptPages{last: make(map[string]keptPage)} }

// keep keeps the content of a page instead of its last one. The oldest page goes if there are too many.
func (k *keptPages) keep(key string, content any, now time.Time) {
	if key == "" {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, there := k.last[key]; !there && len(k.last) >= maxKept {
		oldest := key
		for other, p := range k.last {
			if oldest == key || p.at.Before(k.last[oldest].at) {
				oldest = other
			}
		}
		delete(k.last, oldest)
	}
	k.last[key] = keptPage{content, now}
}

func (k *keptPages) of(key string) keptPage {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last[key]
}

// orKept returns the result of read. With an error, it returns the last content of the page of that key,
// with its time, or nil.
func orKept[Part any](k *keptPages, key string, read func() (*Part, error)) (*Part, staleness, error) {
	part, err := read()
	if err == nil {
		k.keep(key, forKeeping(part), time.Now())
		return part, staleness{}, nil
	}
	last := k.of(key)
	part, _ = last.content.(*Part)
	return part, staleness{Time(last.at), awayText(err)}, err
}

// fresh is orKept for the part of a page that comes from the database.
func fresh[Part any](h *handling, r *http.Request, read func(context.Context) (*Part, error)) (*Part, staleness) {
	values := r.URL.Query()
	values.Del("refresh")
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	part, stale, err := orKept(h.kept, r.URL.EscapedPath()+"?"+values.Encode(), func() (*Part, error) { return read(ctx) })
	if err != nil {
		h.logger.WarnContext(r.Context(), "reading figures failed; the page shows old ones, or none", slog.Any("error", err))
	}
	return part, stale
}

// lastEvent returns an event. While the database is away, it is the event as its page showed it last, with its
// time, or an error.
func (h *handling) lastEvent(r *http.Request, source, id string) (*driver.EventDetail, staleness, error) {
	key := queryOf(url.Values{"source": {source}, "id": {id}})
	found, stale, err := orKept(h.keptEvents, key, func() (*driver.EventDetail, error) { return h.readEvent(r, source, id) })
	if err != nil {
		if found == nil || !passes(err) && !errors.Is(err, driver.ErrSchema) {
			return nil, staleness{}, err
		}
		h.logAway(r, "reading an event", err)
	}
	return found, stale, nil
}

// forKeeping returns a copy of the content of a page, or of a page of a listing, as keptPages holds it.
func forKeeping(content any) any {
	switch p := content.(type) {
	case *overviewFigures:
		part := *p
		part.Failures = keptOf(p.Failures, func(d *DeadLetter) { d.LastError = "" })
		return &part
	case *destinationFigures:
		part := *p
		part.Failures = keptOf(p.Failures, func(f *Failure) { f.Error = "" })
		return &part
	case *driver.EventDetail:
		kept := *p
		kept.Headers, kept.Body, kept.OtherBody, kept.LastError = nil, nil, nil, ""
		kept.Messages = keptOf(p.Messages, func(m *driver.MessageDetail) { m.LastError = "" })
		kept.Tries = keptOf(p.Tries, func(a *driver.Attempt) { a.Error, a.Response = "", nil })
		kept.History = keptOf(p.History, func(*driver.HistoryEntry) {})
		return &kept
	case *driver.EventPage:
		return &driver.EventPage{Events: keptOf(p.Events, func(e *driver.Event) { e.LastError = "" })}
	case *driver.DeadLetterPage:
		return &driver.DeadLetterPage{DeadLetters: keptOf(p.DeadLetters, func(d *driver.DeadLetter) { d.LastError = "" })}
	case *driver.RefusedPage:
		return &driver.RefusedPage{Requests: keptOf(p.Requests, func(q *driver.RefusedRequest) { q.Headers, q.Body = nil, nil })}
	case *driver.QuarantinePage:
		return &driver.QuarantinePage{Requests: keptOf(p.Requests, func(q *driver.QuarantinedRequest) { q.Headers, q.Body = nil, nil })}
	case *driver.JobPage:
		return &driver.JobPage{Jobs: keptOf(withShortFilters(p.Jobs), func(j *driver.Job) { j.LastError = "" })}
	}
	return content
}

// withShortFilters returns the first jobs: the filter of one may name a thousand ids.
func withShortFilters(jobs []driver.Job) []driver.Job {
	const most = 64 << 10 // bytes of all filters
	size := 0
	for i := range jobs {
		if size += len(jobs[i].Filter); size > most {
			return jobs[:i]
		}
	}
	return jobs
}

// keptOf returns copies of the first rows, without the texts that strip removes.
func keptOf[Row any](rows []Row, strip func(*Row)) []Row {
	kept := append([]Row(nil), rows[:min(len(rows), keptRows)]...)
	for i := range kept {
		strip(&kept[i])
	}
	return kept
}
