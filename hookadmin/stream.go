package hookadmin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/feed"
	"github.com/hookonce/hookonce/internal/shown"
	"github.com/hookonce/hookonce/internal/tell"
)

const (
	heartbeat = 15 * time.Second
	// streamLength ends a stream. Its client comes back, and must be allowed to.
	streamLength = time.Hour
	// streamWriteTimeout bounds one write: a client that does not read is dropped, and resumes.
	streamWriteTimeout = 10 * time.Second
	// streamRows is how many rows are written at once.
	streamRows = 100
	// streamRetry is when a client comes back, in milliseconds.
	streamRetry = 2000
)

var (
	streamParameters = []string{"source", "type", "kind", "destination", "outcome", "cursor"}
	streamKinds      = []driver.FeedKind{driver.FeedDelivery, driver.FeedEvent, driver.FeedAttempt, driver.FeedRefused}
)

// streamOutcomes returns all values of StreamRow.Outcome.
func streamOutcomes() []string {
	return slices.Concat(tell.DeliveryOutcomes(), tell.MessageOutcomes(), []string{"done", "replayed", "retried", "discarded"})
}

// StreamRow is the data of one row of GET /api/v1/stream. Keys without a value are left out, except
// the first six.
type StreamRow struct {
	Kind    string `json:"kind"` // delivery, event, attempt or refused, as the row's event
	At      Time   `json:"at"`
	Source  string `json:"source"`   // "" if there is no such source
	EventID string `json:"event_id"` // "" without an event
	Type    string `json:"type"`
	Outcome string `json:"outcome"`

	Destination string  `json:"destination,omitempty"`
	MessageID   string  `json:"message_id,omitempty"`
	Attempt     int     `json:"attempt,omitempty"` // from 1
	Status      int     `json:"status,omitempty"`  // of the answer to a delivery, or of the destination's answer
	TookSeconds float64 `json:"took_seconds,omitempty"`
	Reason      string  `json:"reason,omitempty"` // of a refusal
	Remote      string  `json:"remote,omitempty"` // the client's address
	ErrorID     string  `json:"error_id,omitempty"`
	Error       string  `json:"error,omitempty"` // its beginning
	Gateway     string  `json:"gateway,omitempty"`
	Count       int     `json:"count,omitempty"`   // how many equal deliveries this row stands for, if more than 1
	Dropped     int     `json:"dropped,omitempty"` // how many rows are left out near this one
}

// encodeRow returns a row as the stream has it, without Dropped.
func encodeRow(r *feed.Row) []byte {
	raw, err := json.Marshal(&StreamRow{
		Kind: r.Kind.String(), At: Time(r.At), Source: r.Source, EventID: r.EventID, Type: r.Type, Outcome: r.Outcome,
		Destination: r.Destination, MessageID: r.MessageID, Attempt: r.Attempt, Status: r.Status, TookSeconds: r.TookSeconds,
		Reason: r.Reason, Remote: r.Remote, ErrorID: r.ErrorID, Error: r.Error, Gateway: r.Gateway, Count: r.Count,
	})
	if err != nil {
		panic(err) // texts and finite numbers
	}
	return shown.JSON(raw)
}

// StreamFilter selects rows of the stream. Empty fields select all.
type StreamFilter struct {
	Source, Type, Kind, Destination, Outcome string
	// After is the id of the last row that is known; 0 for none.
	After int64
}

func (f *StreamFilter) matches(e *feed.Entry) bool {
	for _, pair := range [...][2]string{
		{f.Source, e.Source}, {f.Type, e.Type}, {f.Kind, e.Kind.String()}, {f.Destination, e.Destination}, {f.Outcome, e.Outcome},
	} {
		if pair[0] != "" && pair[0] != pair[1] {
			return false
		}
	}
	return true
}

// ParseStreamFilter reads the parameters of GET /api/v1/stream, as ParseFilter does.
func ParseStreamFilter(values url.Values, _ time.Time) (*StreamFilter, error) {
	if err := checkParameters(values, streamParameters); err != nil {
		return nil, err
	}
	f := &StreamFilter{
		Source: values.Get("source"), Type: values.Get("type"), Kind: values.Get("kind"), Destination: values.Get("destination"),
		Outcome: values.Get("outcome"),
	}
	if known := streamOutcomes(); f.Outcome != "" && !slices.Contains(known, f.Outcome) {
		return nil, &ParameterError{"outcome", fmt.Sprintf("%q is unknown; use %s", f.Outcome, strings.Join(known, ", "))}
	}
	var kinds []string
	for _, k := range streamKinds {
		kinds = append(kinds, k.String())
	}
	if f.Kind != "" && !slices.Contains(kinds, f.Kind) {
		return nil, &ParameterError{"kind", fmt.Sprintf("%q is unknown; use %s", f.Kind, strings.Join(kinds, ", "))}
	}
	var err error
	f.After, err = parsePlace("cursor", values.Get("cursor"))
	return f, err
}

// parsePlace reads the id of a row; "" is 0.
func parsePlace(name, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || number <= 0 {
		return 0, &ParameterError{name, fmt.Sprintf("%.40q is not an id of this stream; leave it out to begin now", text)}
	}
	return number, nil
}

// streams is shared by the streams of a handler.
type streams struct {
	hub *feed.Hub

	mu      sync.Mutex
	servers map[*http.Server]chan struct{} // closed when the server shuts down
}

func newStreams(cfg *Config, log *slog.Logger) *streams {
	hub := feed.NewHub(cfg.Store, log, encodeRow, cfg.StreamClients)
	hub.Began = cfg.Engine.Operator().FeedWatched
	return &streams{hub: hub, servers: make(map[*http.Server]chan struct{})}
}

// ending returns a channel that is closed when the server of r shuts down, which would wait for its
// streams.
func (l *streams) ending(r *http.Request) <-chan struct{} {
	server, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	if !ok {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.servers[server] == nil {
		ends := make(chan struct{})
		l.servers[server] = ends
		server.RegisterOnShutdown(sync.OnceFunc(func() { close(ends) }))
	}
	return l.servers[server]
}

func (h *handling) showStream(w http.ResponseWriter, r *http.Request) {
	values, ok := h.query(w, r)
	if !ok {
		return
	}
	filter, err := ParseStreamFilter(values, time.Now())
	var last int64
	if err == nil {
		last, err = parsePlace("Last-Event-ID", r.Header.Get("Last-Event-ID"))
	}
	if err != nil {
		h.fail(w, r, http.StatusBadRequest, err.Error(), nil)
		return
	}
	if last > 0 {
		filter.After = last // a browser that comes back repeats the parameters
	}
	header := w.Header()
	if r.Method == http.MethodHead {
		header.Set("Content-Type", eventStream)
		return
	}
	client, err := h.streams.hub.Join(r.Context())
	switch {
	case r.Context().Err() != nil:
		return // the viewer has left
	case errors.Is(err, feed.ErrFull):
		h.fail(w, r, http.StatusServiceUnavailable, fmt.Sprintf(
			"This gateway streams to %d clients already. Close another one, or try again later.", feed.MaxClients), nil)
		return
	case err != nil:
		h.failStore(w, r, fmt.Errorf("joining the stream: %w", err))
		return
	}
	defer client.Leave()
	header.Set("Content-Type", eventStream)
	header.Set("X-Accel-Buffering", "no") // nginx would hold rows back
	s := &stream{client: client, filter: filter, at: filter.After, out: http.NewResponseController(w), w: w}
	// The server would end the request at its own deadlines. If it has none to set, there are none.
	_ = s.out.SetReadDeadline(time.Time{})
	s.run(r, h.streams.ending(r))
}

const eventStream = "text/event-stream"

// stream is one open stream.
type stream struct {
	client *feed.Client
	filter *StreamFilter
	at     int64 // the number of the last row that was looked at; 0 at the beginning

	w       http.ResponseWriter
	out     *http.ResponseController
	buf     bytes.Buffer
	dropped int // rows that were left out since the last one that was written
}

// run writes rows until the client has gone, the server shuts down, or streamLength is over.
func (s *stream) run(r *http.Request, ending <-chan struct{}) {
	fmt.Fprintf(&s.buf, "retry: %d\n", streamRetry)
	if s.at == 0 {
		s.at = s.client.Start()
	}
	s.mark()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	end := time.NewTimer(streamLength)
	defer end.Stop()
	for {
		more := s.collect()
		if s.buf.Len() > 0 {
			if s.write() != nil {
				return
			}
			beat.Reset(heartbeat)
			continue // there may be more than streamRows
		}
		select {
		case <-more:
		case <-beat.C:
			s.buf.WriteString(": alive\n")
			s.mark() // rows that the filter left out need not be read again
		case <-r.Context().Done():
			return
		case <-ending:
			return
		case <-end.C:
			return
		}
	}
}

// mark tells the client where the stream is, without a row.
func (s *stream) mark() { fmt.Fprintf(&s.buf, "id: %d\n\n", s.at) }

// collect adds the next rows to the buffer, and returns a channel that is closed when there may be
// more. If rows are no longer there, it tells the client to reload, and goes on with new ones.
func (s *stream) collect() <-chan struct{} {
	entries, more, ok := s.client.After(s.at, streamRows)
	if !ok {
		s.at, s.dropped = s.client.Last(), 0
		fmt.Fprintf(&s.buf, "event: reload\nid: %d\ndata: {}\n\n", s.at)
		return nil
	}
	for i := range entries {
		e := &entries[i]
		s.at, s.dropped = e.Seq, s.dropped+e.Dropped
		if !s.filter.matches(e) {
			continue
		}
		fmt.Fprintf(&s.buf, "event: %s\nid: %d\ndata: ", e.Kind, e.Seq)
		s.buf.Write(e.Data)
		if s.dropped > 0 {
			s.buf.Truncate(s.buf.Len() - len("}"))
			fmt.Fprintf(&s.buf, `,"dropped":%d}`, s.dropped)
			s.dropped = 0
		}
		s.buf.WriteString("\n\n")
	}
	if len(entries) == streamRows {
		return closed // there may be more at once
	}
	return more
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// write sends the buffer.
func (s *stream) write() error {
	if err := s.out.SetWriteDeadline(time.Now().Add(streamWriteTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	_, err := s.w.Write(s.buf.Bytes())
	s.buf.Reset()
	if err != nil {
		return err
	}
	return s.out.Flush()
}
