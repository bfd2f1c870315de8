package hookadmin

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/operate"
	"github.com/hookonce/hookonce/internal/say"
)

// Health is the answer of GET /healthz and /readyz.
type Health struct {
	Status string `json:"status"` // "ok" for /healthz, "ready" for /readyz
}

// QuarantinePage is the answer of GET /api/v1/quarantine.
type QuarantinePage struct {
	Requests []QuarantinedRequest `json:"requests"` // newest first
	// Next is the cursor of the next page; "" on the last one.
	Next string `json:"next"`
}

// QuarantinedRequest is a verified request without a usable event.
type QuarantinedRequest struct {
	ID      string              `json:"id"`
	Source  string              `json:"source"`
	Reason  string              `json:"reason"`
	Count   int64               `json:"count,string"` // arrivals; at least 1
	FirstAt Time                `json:"first_at"`
	LastAt  Time                `json:"last_at"`
	Headers map[string][]string `json:"headers"`
	// Body is a body of valid UTF-8, otherwise null; BodyBase64 is any other body, otherwise null.
	Body       *string `json:"body"`
	BodyBase64 []byte  `json:"body_base64"`
	BodySHA256 string  `json:"body_sha256"` // hex
}

// QuarantineRetried is the answer of POST /api/v1/quarantine/{id}/retry.
type QuarantineRetried struct {
	ID       string   `json:"id"`
	Source   string   `json:"source"`
	EventIDs []string `json:"event_ids"` // of the request's events, which are all stored
	Claimed  int      `json:"claimed"`   // new events
	Reopened int      `json:"reopened"`  // dead events that are due again
	// Duplicates counts events that were claimed before.
	Duplicates int `json:"duplicates"`
	// Kept counts items of a batch that are still not usable. Each is in the quarantine by itself.
	Kept int `json:"kept"`
}

// SourcePage is the answer of GET /api/v1/sources.
type SourcePage struct {
	Sources []Source `json:"sources"` // by name
}

// Source is a configured source.
type Source struct {
	Name                string  `json:"name"`
	Provider            string  `json:"provider"`
	Scheme              string  `json:"scheme"`     // "" for the provider's default
	Unsigned            bool    `json:"unsigned"`   // nothing is verified
	Consume             string  `json:"consume"`    // routes or sql
	Redelivery          string  `json:"redelivery"` // reopen or ack
	Malformed           string  `json:"malformed"`  // reject or quarantine
	ReplayGuard         bool    `json:"replay_guard"`
	MaxBody             int64   `json:"max_body,string"` // bytes
	AckTimeoutSeconds   float64 `json:"ack_timeout_seconds"`
	DedupeWindowSeconds float64 `json:"dedupe_window_seconds"`
	RetentionSeconds    float64 `json:"retention_seconds"`
	// ProviderRetriesSeconds is how long the provider repeats a delivery; 0 if not known. A dedupe
	// window should not be shorter.
	ProviderRetriesSeconds float64  `json:"provider_retries_seconds"`
	Routes                 []string `json:"routes"`  // names of routes that take its events
	OnDead                 string   `json:"on_dead"` // the destination that is told of its dead events; "" for none
	// LearnedSecrets counts the secrets that the provider has handed over; null if the database did not
	// answer.
	LearnedSecrets *int `json:"learned_secrets"`
	LearnedAt      Time `json:"learned_at"`  // time of the newest one; null without one
	ArmedUntil     Time `json:"armed_until"` // null if the source does not wait for a secret

	// Address is where the provider sends; only its path unless public_url or listen is one that others reach.
	Address string `json:"address"`
	// Health is working, watch, trouble or silent, and Why the reason; "" if the database did not answer.
	Health string `json:"health"`
	Why    string `json:"why"`
	// Deliveries counts those of the last 24 hours.
	Deliveries     int64 `json:"deliveries,string"`
	LastDeliveryAt Time  `json:"last_delivery_at"` // to the minute; null without one

	// Reconcile is how the provider's list of events is read; null without the setting.
	Reconcile *SourceReconcile `json:"reconcile"`
}

// SourceReconcile says when a provider's list of events is read, and how the last look ended. Its times are null, and
// its counts 0, before the first look and if the database did not answer.
type SourceReconcile struct {
	EverySeconds float64 `json:"every_seconds"` // 0: only by command
	Running      bool    `json:"running"`
	NextAt       Time    `json:"next_at"`
	EndedAt      Time    `json:"ended_at"`          // of the last look
	Error        string  `json:"error"`             // of the last look; "" if it succeeded
	Unreadable   int64   `json:"unreadable,string"` // events that the last look left out
	DoneUntil    Time    `json:"done_until"`        // all events up to then were looked at
	// Missed counts events that never arrived by webhook and were claimed, until FoundAt. A look that finds some more than
	// a day later begins anew.
	Missed       int64 `json:"missed,string"`
	FoundAt      Time  `json:"found_at"`
	FirstMissing Time  `json:"first_missing"`
	LastMissing  Time  `json:"last_missing"`
}

// RoutePage is the answer of GET /api/v1/routes.
type RoutePage struct {
	Routes []Route `json:"routes"` // in the order of the settings
}

// Route is a configured route.
type Route struct {
	Name        string   `json:"name"`
	Sources     []string `json:"sources"`     // none means all
	Types       []string `json:"types"`       // none means all
	Conditional bool     `json:"conditional"` // it also has a condition
	Destination string   `json:"destination"`
}

// DestinationPage is the answer of GET /api/v1/destinations.
type DestinationPage struct {
	Destinations []Destination `json:"destinations"` // by name
}

// Destination is a destination that is configured or has stored messages.
type Destination struct {
	Name       string `json:"name"`
	Configured bool   `json:"configured"` // false: its messages wait until it is configured
	// The counts are null if the database did not answer; then destinations that are not configured
	// are missing, too.
	Pending *int64 `json:"pending,string"`
	Sending *int64 `json:"sending,string"`
	Dead    *int64 `json:"dead,string"`
	// HeldLines counts the objects whose order waits at a dead letter.
	HeldLines *int64 `json:"held_lines,string"`
	// More lists the keys of the numbers that stand for so many or more; see Stats.More.
	More      []string `json:"more"`
	OldestDue Time     `json:"oldest_due_at"` // of the pending messages; null without one
	Paused    *bool    `json:"paused"`        // nothing is sent until it is resumed; null if the database did not answer
	PausedAt  Time     `json:"paused_at"`     // null unless paused
	// Settings and Circuit are null if Configured is false.
	Settings *DestinationSettings `json:"settings"`
	Circuit  *Circuit             `json:"circuit"`
	// LastFailure is null if no open or dead message has a failed attempt, or if the database did not answer.
	LastFailure *Failure `json:"last_failure"`
}

// Failure is the last failed attempt to send a message, which was not sent since.
type Failure struct {
	MessageID  string `json:"message_id"`
	Source     string `json:"source"`
	EventID    string `json:"event_id"`
	Type       string `json:"type"`
	Attempt    int    `json:"attempt"`
	StatusCode *int   `json:"status_code"` // null: there was no answer
	Error      string `json:"error"`
	At         Time   `json:"at"`
}

func newFailure(f *driver.Failure) *Failure {
	return &Failure{
		MessageID: f.MessageID, Source: f.Source, EventID: f.EventID, Type: f.Type,
		Attempt: f.Attempt, StatusCode: statusCode(f.StatusCode), Error: f.Error, At: Time(f.At),
	}
}

// DestinationSettings are the settings of a destination, without its secret and without those parts of
// the URL that may be one.
type DestinationSettings struct {
	Address        string  `json:"address"` // scheme, host, port and path; with sender, its own text or ""
	Sender         bool    `json:"sender"`  // it has a Sender, such as that of a message broker
	Signed         bool    `json:"signed"`
	TimeoutSeconds float64 `json:"timeout_seconds"`
	Retry          Retry   `json:"retry"`
	Concurrency    int     `json:"concurrency"`
	Rate           *Rate   `json:"rate"`    // null for no limit
	OnDead         string  `json:"on_dead"` // the destination that is told of dead letters; "" for none
}

// Retry is the retry schedule of a destination.
type Retry struct {
	Attempts     int     `json:"attempts"`
	FirstSeconds float64 `json:"first_seconds"`
	MaxSeconds   float64 `json:"max_seconds"`
}

// Rate is a number of sends in a time.
type Rate struct {
	Count      int     `json:"count"`
	PerSeconds float64 `json:"per_seconds"`
}

// Circuit is the circuit of a destination in the process that answers.
type Circuit struct {
	Open      bool `json:"open"`       // only probes are sent
	Failures  int  `json:"failures"`   // failed sends in a row
	Since     Time `json:"since"`      // null unless open
	NextProbe Time `json:"next_probe"` // null unless open
}

// Stats is the answer of GET /api/v1/stats.
type Stats struct {
	EventsPending   int64 `json:"events_pending,string"` // events that wait for a handler or an SQL consumer
	OldestPendingAt Time  `json:"oldest_pending_at"`     // due time of the oldest; null without one
	MessagesPending int64 `json:"messages_pending,string"`
	MessagesSending int64 `json:"messages_sending,string"`
	OldestDueAt     Time  `json:"oldest_due_at"`       // of the pending messages; null without one
	DeadLetters     int64 `json:"dead_letters,string"` // dead messages, and dead events without one
	Quarantined     int64 `json:"quarantined,string"`  // requests in the quarantine

	Paused []string `json:"paused_destinations"` // by name, also those that are not configured
	// More lists the keys of the numbers that stand for so many or more: counting stops at 10,000 for
	// each destination, and for each other number.
	More []string `json:"more"`
}

// NewQuarantinePage returns a page of the quarantine as the API prints it.
func NewQuarantinePage(page *driver.QuarantinePage) (*QuarantinePage, error) {
	out := &QuarantinePage{Requests: make([]QuarantinedRequest, 0, len(page.Requests)), Next: page.Next.String()}
	for i := range page.Requests {
		shape, err := NewQuarantinedRequest(&page.Requests[i])
		if err != nil {
			return nil, err
		}
		out.Requests = append(out.Requests, *shape)
	}
	return out, nil
}

// NewQuarantinedRequest returns a quarantined request as the API prints it.
func NewQuarantinedRequest(q *driver.QuarantinedRequest) (*QuarantinedRequest, error) {
	out, err := newQuarantined(q)
	if err != nil {
		return nil, fmt.Errorf("stored headers of the quarantined request %s of source %q: %w", out.ID, q.Source, err)
	}
	return out, nil
}

// newQuarantined returns the request without its headers, and an error, if they cannot be read.
func newQuarantined(q *driver.QuarantinedRequest) (*QuarantinedRequest, error) {
	out := &QuarantinedRequest{
		ID: hex.EncodeToString(q.Key[:]), Source: q.Source, Reason: q.Reason, Count: q.Count, FirstAt: Time(q.FirstAt), LastAt: Time(q.LastAt),
		BodySHA256: hex.EncodeToString(q.BodySHA256[:]),
	}
	out.Body, out.BodyBase64 = body(q.Body)
	var err error
	out.Headers, err = headersOf(q.Headers)
	return out, err
}

// NewQuarantineRetried returns the result of a retry as the API prints it. id is that of the request.
func NewQuarantineRetried(id string, retried *operate.RetriedRequest) *QuarantineRetried {
	return &QuarantineRetried{
		ID: id, Source: retried.Source, EventIDs: notNull(retried.EventIDs), Claimed: retried.Claimed,
		Reopened: retried.Reopened, Duplicates: retried.Duplicates, Kept: retried.Kept,
	}
}

// NewSourcePage returns the page of these sources.
func NewSourcePage(all []operate.SourceStatus) *SourcePage {
	out := &SourcePage{Sources: make([]Source, 0, len(all))}
	for i := range all {
		s := &all[i]
		out.Sources = append(out.Sources, Source{
			Name:                   s.Name,
			Provider:               string(s.Provider),
			Scheme:                 s.Scheme,
			Unsigned:               s.Unsigned,
			Consume:                s.Consume,
			Redelivery:             s.Redelivery,
			Malformed:              s.Malformed,
			ReplayGuard:            s.ReplayGuard,
			MaxBody:                s.MaxBody,
			AckTimeoutSeconds:      s.AckTimeout.Seconds(),
			DedupeWindowSeconds:    s.DedupeWindow.Seconds(),
			RetentionSeconds:       s.Retention.Seconds(),
			ProviderRetriesSeconds: s.ProviderRetries.Seconds(), OnDead: s.OnDead,
			Routes: notNull(s.Routes),
		})
		if s.Reconciles {
			out.Sources[i].Reconcile = &SourceReconcile{EverySeconds: s.ReconcileEvery.Seconds()}
		}
	}
	return out
}

// looked adds the state in the database.
func (r *SourceReconcile) looked(from *driver.Reconcile) {
	r.Running, r.NextAt, r.EndedAt, r.DoneUntil = from.LeasedUntil.After(from.Now), Time(from.NextAt), Time(from.EndedAt), Time(from.DoneUntil)
	r.Error, r.Unreadable, r.Missed = from.Error, from.Unreadable, from.Missed
	r.FoundAt, r.FirstMissing, r.LastMissing = Time(from.FoundAt), Time(from.FirstMissing), Time(from.LastMissing)
}

// foundLately reports whether events were found missing in the last day.
func (r *SourceReconcile) foundLately(now time.Time) bool {
	return r != nil && r.Missed > 0 && now.Sub(time.Time(r.FoundAt)) < driver.MissedKept
}

// missedText says how many events never arrived.
func (r *SourceReconcile) missedText() string {
	when := "It happened at " + toTheSecond(r.FirstMissing)
	if r.Missed > 1 {
		when = "The first happened at " + toTheSecond(r.FirstMissing) + ", the last at " + toTheSecond(r.LastMissing)
	}
	return say.Count(r.Missed, "event") + " never arrived by webhook. " + when + "."
}

// learned adds the facts in the database about the source.
func (s *Source) learned(from *driver.SourceSecrets) {
	n := len(from.Secrets)
	s.LearnedSecrets = &n
	if n > 0 {
		s.LearnedAt = Time(from.Secrets[n-1].LearnedAt)
	}
	if from.Armed() {
		s.ArmedUntil = Time(from.ArmedUntil)
	}
}

func newRoutePage(all []operate.RouteStatus) *RoutePage {
	out := &RoutePage{Routes: make([]Route, 0, len(all))}
	for i := range all {
		r := &all[i]
		out.Routes = append(out.Routes, Route{
			Name: r.Name, Sources: notNull(r.Sources), Types: notNull(r.Types),
			Conditional: r.Conditional, Destination: r.Destination,
		})
	}
	return out
}

// newDestinationPage joins the configured destinations with those that have messages; stats is nil
// if the database did not answer.
func newDestinationPage(configured []operate.DestinationStatus, stats *driver.Stats) *DestinationPage {
	byName := make(map[string]*Destination)
	for i := range configured {
		d := &configured[i]
		byName[d.Name] = &Destination{
			Name: d.Name, Configured: true, Settings: newDestinationSettings(d),
			Circuit: &Circuit{
				Open: d.Circuit.Open, Failures: d.Circuit.Failures,
				Since: Time(d.Circuit.Since), NextProbe: Time(d.Circuit.NextProbe),
			},
		}
	}
	if stats != nil {
		addCounts(byName, stats.Destinations)
	}
	out := &DestinationPage{Destinations: make([]Destination, 0, len(byName))}
	for _, d := range byName {
		d.More = notNull(d.More)
		out.Destinations = append(out.Destinations, *d)
	}
	slices.SortFunc(out.Destinations, func(a, b Destination) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func addCounts(byName map[string]*Destination, counted []driver.DestinationStats) {
	for _, d := range byName {
		d.Pending, d.Sending, d.Dead, d.HeldLines = new(int64), new(int64), new(int64), new(int64)
	}
	for i := range counted {
		c := &counted[i]
		d := byName[c.Destination]
		if d == nil {
			d = &Destination{Name: c.Destination}
			byName[d.Name] = d
		}
		d.Pending, d.Sending, d.Dead, d.OldestDue = &c.Pending, &c.Sending, &c.Dead, Time(c.OldestDueAt)
		d.HeldLines = &c.HeldLines
		d.More = atLimit(number{"pending", c.Pending}, number{"sending", c.Sending}, number{"dead", c.Dead}, number{"held_lines", c.HeldLines})
	}
}

func newDestinationSettings(d *operate.DestinationStatus) *DestinationSettings {
	s := &DestinationSettings{
		OnDead:  d.OnDead,
		Address: d.Address, Sender: d.Sender, Signed: d.Signed, TimeoutSeconds: d.Timeout.Seconds(), Concurrency: d.Concurrency,
		Retry: Retry{Attempts: d.Retry.Attempts, FirstSeconds: d.Retry.First.Seconds(), MaxSeconds: d.Retry.Max.Seconds()},
	}
	if d.Rate.Count > 0 {
		s.Rate = &Rate{Count: d.Rate.Count, PerSeconds: d.Rate.Per.Seconds()}
	}
	return s
}

func newStats(s *driver.Stats) *Stats {
	out := &Stats{
		EventsPending: s.EventsPending, OldestPendingAt: Time(s.OldestPendingAt),
		DeadLetters: s.DeadLetters, Quarantined: s.Quarantined,
	}
	var oldest time.Time
	var pendingMore, sendingMore bool
	for i := range s.Destinations {
		d := &s.Destinations[i]
		out.MessagesPending += d.Pending
		out.MessagesSending += d.Sending
		pendingMore = pendingMore || d.Pending >= driver.CountLimit
		sendingMore = sendingMore || d.Sending >= driver.CountLimit
		if !d.OldestDueAt.IsZero() && (oldest.IsZero() || d.OldestDueAt.Before(oldest)) {
			oldest = d.OldestDueAt
		}
	}
	out.OldestDueAt = Time(oldest)
	out.More = atLimit(number{"events_pending", s.EventsPending}, number{"dead_letters", s.DeadLetters}, number{"quarantined", s.Quarantined})
	if pendingMore {
		out.More = append(out.More, "messages_pending")
	}
	if sendingMore {
		out.More = append(out.More, "messages_sending")
	}
	return out
}

// shown returns a number as pages show it.
func (s *Stats) shown(key string, n int64) string {
	if slices.Contains(s.More, key) {
		return say.Number(n) + "+"
	}
	return say.Number(n)
}

// notNull returns list as a list that is [] in JSON if empty, not null.
func notNull(list []string) []string { return append([]string{}, list...) }
